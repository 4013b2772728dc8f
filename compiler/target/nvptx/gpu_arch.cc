#include "compiler/target/nvptx/gpu_arch.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tessera::compiler {
namespace {

const std::vector<GpuArch>& Arches() {
  constexpr int kKiB = 1024;
  static const auto* arches = new std::vector<GpuArch>{
      {"sm_80", 80, false, "sm_80", "", "", 163 * kKiB, 164 * kKiB, 2048, 32},
      {"sm_86", 86, false, "sm_86", "", "", 99 * kKiB, 100 * kKiB, 1536, 16},
      {"sm_87", 87, false, "sm_87", "", "", 163 * kKiB, 164 * kKiB, 1536, 16},
      {"sm_89", 89, false, "sm_89", "", "", 99 * kKiB, 100 * kKiB, 1536, 24},
      {"sm_90", 90, false, "sm_90", "", "", 227 * kKiB, 228 * kKiB, 2048, 32},
      {"sm_90a", 90, true, "sm_90a", "", "", 227 * kKiB, 228 * kKiB, 2048, 32},
      // LLVM 19 ends at sm_90a. Code for sm_90 is right on later GPUs.
      {"sm_100a", 100, false, "sm_90", "sm_100a", "8.6", 227 * kKiB, 228 * kKiB, 2048, 32},
      {"sm_103a", 103, false, "sm_90", "sm_103a", "8.8", 227 * kKiB, 228 * kKiB, 2048, 32},
      {"sm_120", 120, false, "sm_90", "sm_120", "8.7", 99 * kKiB, 100 * kKiB, 1536, 24},
      {"sm_120a", 120, false, "sm_90", "sm_120a", "8.7", 99 * kKiB, 100 * kKiB, 1536, 24},
  };
  return *arches;
}

int RoundUp(int value, int unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

absl::StatusOr<GpuArch> ParseGpuArch(absl::string_view target) {
  std::string known;
  for (const GpuArch& arch : Arches()) {
    if (arch.name == target) return arch;
    absl::StrAppend(&known, known.empty() ? "" : ", ", arch.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown GPU '", target, "'; there are: ", known));
}

Occupancy ComputeOccupancy(const GpuArch& arch, int threads, int registers, int shared_bytes) {
  Occupancy result;
  const int warps = (threads + 31) / 32;
  result.max_warps = arch.sm_threads / 32;
  // Registers are given to warps in units; each of a multiprocessor's four parts has a quarter of them.
  const int warp_registers = std::max(RoundUp(std::max(registers, 1) * 32, GpuArch::kRegisterUnit), GpuArch::kRegisterUnit);
  const int register_warps = GpuArch::kSmRegisters / 4 / warp_registers * 4;
  const int shared = RoundUp(shared_bytes + GpuArch::kReservedSharedBytes, 128);
  struct Limit {
    int blocks;
    const char* name;
  };
  const Limit limits[] = {{arch.sm_blocks, "blocks"},
                          {result.max_warps / std::max(warps, 1), "threads"},
                          {register_warps / std::max(warps, 1), "registers"},
                          {arch.sm_shared_bytes / shared, "shared memory"}};
  const Limit* least = std::min_element(std::begin(limits), std::end(limits), [](const Limit& a, const Limit& b) { return a.blocks < b.blocks; });
  result.blocks = least->blocks;
  result.limit = least->name;
  result.warps = result.blocks * warps;
  return result;
}

}  // namespace tessera::compiler
