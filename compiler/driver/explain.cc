#include "compiler/driver/explain.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "compiler/target/nvptx/gpu_arch.h"

namespace tessera::compiler {
namespace {

// Bytes that one thread moves by an instruction "ld.global.v4.b32".
int BytesOf(const std::vector<absl::string_view>& parts) {
  int count = 1, bits = 0;
  for (absl::string_view part : parts) {
    int number = 0;
    if (part.size() == 2 && part[0] == 'v' && absl::SimpleAtoi(part.substr(1), &number)) count = number;
    else if (absl::EndsWith(part, "x2") && absl::StartsWith(part, "f16")) bits = 32;
    else if (absl::EndsWith(part, "x2") && absl::StartsWith(part, "bf16")) bits = 32;
    else if (part == "bf16") bits = 16;
    else if (part.size() >= 2 && absl::StrContains("bufs", part.substr(0, 1)) && absl::SimpleAtoi(part.substr(1), &number)) bits = number;
  }
  return count * bits / 8;
}

bool Has(const std::vector<absl::string_view>& parts, absl::string_view word) { return std::find(parts.begin(), parts.end(), word) != parts.end(); }

void ReadInstruction(absl::string_view line, KernelExplanation* found) {
  line = absl::StripLeadingAsciiWhitespace(line);
  if (absl::StartsWith(line, "@")) line.remove_prefix(std::min(line.find(' '), line.size() - 1) + 1);
  const size_t end = line.find_first_of(" \t");
  if (end == absl::string_view::npos) return;
  const std::vector<absl::string_view> parts = absl::StrSplit(line.substr(0, end), '.');
  if ((parts[0] == "ld" || parts[0] == "st") && Has(parts, "global")) {
    ++found->accesses[parts[0] == "ld" ? "load" : "store"][BytesOf(parts)];
  } else if ((parts[0] == "atom" || parts[0] == "red") && !Has(parts, "shared")) {
    ++found->accesses["atomic"][BytesOf(parts)];
  } else if (parts[0] == "cp" && parts.size() > 2 && parts[1] == "async" && Has(parts, "global")) {
    const std::vector<absl::string_view> operands = absl::StrSplit(absl::StripSuffix(line.substr(end), ";"), ',');
    int bytes = 0;
    if (operands.size() > 2 && absl::SimpleAtoi(absl::StripAsciiWhitespace(operands[2]), &bytes)) ++found->accesses["copy to shared"][bytes];
  } else if (parts[0] == "mma" || parts[0] == "wgmma") {
    // The shape, and the types of the operands.
    auto shape = std::find_if(parts.begin(), parts.end(), [](absl::string_view part) { return part.size() > 2 && part[0] == 'm' && std::isdigit(static_cast<unsigned char>(part[1])); });
    if (shape == parts.end()) return;  // a fence or a wait
    size_t types = shape - parts.begin() + 1;
    while (types < parts.size() && (parts[types] == "row" || parts[types] == "col")) ++types;
    ++found->matrix_instructions[absl::StrCat(parts[0], " ", *shape, " ", types + 1 < parts.size() ? parts[types + 1] : "")];
  } else if (parts[0] == "bar" && parts.size() > 1 && parts[1] == "sync") {
    ++found->barriers;
  }
}

void AddHints(const GpuArch& arch, KernelExplanation* found) {
  if (found->spill_bytes > 0)
    found->hints.push_back(absl::StrCat(found->spill_bytes, " bytes of each thread's registers are spilled to local memory: use more warps or smaller blocks"));
  for (const char* kind : {"load", "store"}) {
    int narrow = 0, all = 0;
    for (const auto& [bytes, count] : found->accesses[kind]) {
      all += count;
      if (bytes < 4) narrow += count;
    }
    if (narrow * 2 > all)
      found->hints.push_back(absl::StrCat("most ", kind, "s move fewer than 4 bytes a thread: make the fastest-varying offset contiguous, and state divisibility (':16' in the signature, "
                                          "tl.multiple_of) of strides and pointers"));
    if (all == 0) found->accesses.erase(kind);
  }
  if (found->resident_warps * 4 < found->max_warps && found->matrix_instructions.empty())
    found->hints.push_back(absl::StrCat("only ", found->resident_warps, " of ", found->max_warps, " warps are resident, limited by ", found->occupancy_limit,
                                        ": memory latency may not be hidden"));
  if (found->resident_blocks == 0) found->hints.push_back(absl::StrCat("no block fits a multiprocessor, for want of ", found->occupancy_limit));
  bool small = false;
  for (const auto& [name, count] : found->matrix_instructions) small |= absl::StartsWith(name, "mma ");
  if (arch.wgmma && small && found->threads % 128 == 0)
    found->hints.push_back("the matrix products run as mma.sync: wgmma needs blocks of at least 64 rows and 4 warps, and is twice as fast");
}

}  // namespace

absl::StatusOr<KernelExplanation> ExplainKernel(const storage::Artifact& artifact) {
  const storage::KernelMetadata& metadata = artifact.metadata();
  auto ptx = artifact.stages().find("ptx");
  if (ptx == artifact.stages().end())
    return absl::FailedPreconditionError(absl::StrCat("'", metadata.kernel(), "' was not compiled for a GPU, or without its PTX; use --target sm_90a or the like"));
  ASSIGN_OR_RETURN(GpuArch arch, ParseGpuArch(metadata.target()));
  KernelExplanation found;
  found.threads = metadata.threads();
  found.registers = metadata.registers();
  found.spill_bytes = metadata.spills();
  found.local_bytes = metadata.local_bytes();
  found.shared_bytes = metadata.shared_bytes();
  found.code_bytes = artifact.code().size();
  const Occupancy occupancy = ComputeOccupancy(arch, found.threads, found.registers, found.shared_bytes);
  found.resident_blocks = occupancy.blocks;
  found.resident_warps = occupancy.warps;
  found.max_warps = occupancy.max_warps;
  found.occupancy_limit = occupancy.limit;
  for (absl::string_view line : absl::StrSplit(ptx->second, '\n')) ReadInstruction(line, &found);
  AddHints(arch, &found);
  return found;
}

std::string KernelExplanation::Text() const {
  std::string text;
  absl::StrAppendFormat(&text, "threads a block   %d (%d warps)\n", threads, (threads + 31) / 32);
  absl::StrAppendFormat(&text, "registers         %d a thread, %d bytes spilled, %d bytes of local memory\n", registers, spill_bytes, local_bytes);
  absl::StrAppendFormat(&text, "shared memory     %d bytes a block\n", shared_bytes);
  absl::StrAppendFormat(&text, "occupancy         %d blocks, %d of %d warps a multiprocessor (%d %%), limited by %s\n", resident_blocks, resident_warps, max_warps,
                        max_warps ? 100 * resident_warps / max_warps : 0, occupancy_limit);
  for (const auto& [kind, widths] : accesses) {
    absl::StrAppendFormat(&text, "%-17s ", kind);
    bool first = true;
    for (auto it = widths.rbegin(); it != widths.rend(); ++it) {
      absl::StrAppend(&text, first ? "" : ", ", it->second, " x ", it->first, " bytes");
      first = false;
    }
    text += "\n";
  }
  for (const auto& [name, count] : matrix_instructions) absl::StrAppendFormat(&text, "matrix unit       %d x %s\n", count, name);
  absl::StrAppendFormat(&text, "barriers          %d\n", barriers);
  absl::StrAppendFormat(&text, "code              %d bytes\n", code_bytes);
  if (launch) text += launch->Text();
  for (const std::string& hint : hints) absl::StrAppend(&text, "hint: ", hint, "\n");
  return text;
}

std::string KernelExplanation::Json() const {
  nlohmann::ordered_json json = {{"threads", threads},
                                 {"registers", registers},
                                 {"spill_bytes", spill_bytes},
                                 {"local_bytes", local_bytes},
                                 {"shared_bytes", shared_bytes},
                                 {"resident_blocks", resident_blocks},
                                 {"resident_warps", resident_warps},
                                 {"max_warps", max_warps},
                                 {"occupancy_limit", occupancy_limit},
                                 {"matrix_instructions", matrix_instructions},
                                 {"barriers", barriers},
                                 {"code_bytes", code_bytes},
                                 {"hints", hints}};
  for (const auto& [kind, widths] : accesses)
    for (const auto& [bytes, count] : widths) json["accesses"][kind][std::to_string(bytes)] = count;
  if (launch) {
    json["launch"] = {{"lanes", launch->lanes},
                      {"lanes_inside", launch->inside},
                      {"loaded_bytes", launch->loaded_bytes},
                      {"stored_bytes", launch->stored_bytes},
                      {"distinct_bytes", launch->distinct_bytes},
                      {"matrix_operations", launch->matrix_operations},
                      {"vector_operations", launch->vector_operations}};
    if (!launch->roof.gpu.empty())
      json["launch"]["roof"] = {{"measured_on", launch->roof.gpu}, {"memory_seconds", launch->memory_seconds()}, {"matrix_seconds", launch->matrix_seconds()}};
  }
  return json.dump(2) + "\n";
}

}  // namespace tessera::compiler
