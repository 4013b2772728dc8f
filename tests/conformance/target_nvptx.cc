// The GPU of this machine, through a thin loader of its own on libcuda: nothing here is shared with the executor, so that
// a fault of the one does not hide in the other. Memory is copied to the device for each run, between guards, and back.
//
// Without a GPU the whole binary says "skipped: no GPU" and why. TESSERA_CONFORMANCE_GPU names another target to compile
// for than the GPU's own (sm_80 code runs on later GPUs).
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/kernel_abi.h"
#include "base/status_macros.h"
#include "runtime/cpu/print_lines.h"
#include "tests/conformance/target.h"

namespace tessera::conformance {
namespace {

// The part of cuda.h that this needs, so that it builds without the toolkit.
using DevicePointer = unsigned long long;
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*synchronize)() = nullptr;
  int (*alloc)(DevicePointer*, size_t) = nullptr;
  int (*free)(DevicePointer) = nullptr;
  int (*to_device)(DevicePointer, const void*, size_t) = nullptr;
  int (*to_host)(void*, DevicePointer, size_t) = nullptr;
  int (*fill)(DevicePointer, unsigned char, size_t) = nullptr;
  int (*load)(void**, const void*) = nullptr;
  int (*unload)(void*) = nullptr;
  int (*function)(void**, void*, const char*) = nullptr;
  int (*set_attribute)(void*, int, int) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) = nullptr;
  int (*error_string)(int, const char**) = nullptr;
};
constexpr int kComputeMajor = 75, kComputeMinor = 76;      // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
constexpr int kMaxDynamicSharedBytes = 8;                  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr size_t kGuardBytes = 4096;
constexpr unsigned char kGuard = 0xa5;

struct Gpu {
  Driver driver;
  void* context = nullptr;
  std::string target;  // "sm_90a"
};

// The first GPU; an error says why there is none.
absl::StatusOr<Gpu> OpenGpu() {
  const char* named = std::getenv("TESSERA_LIBCUDA");
  void* library = nullptr;
  for (const char* path : {named ? named : "libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/local/nvidia/lib/libcuda.so.1"})
    if ((library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
  if (!library) return absl::NotFoundError("no GPU: there is no libcuda");
  Gpu gpu;
  Driver& d = gpu.driver;
  const std::pair<const char*, void**> functions[] = {
      {"cuInit", reinterpret_cast<void**>(&d.init)},
      {"cuDeviceGet", reinterpret_cast<void**>(&d.device_get)},
      {"cuDeviceGetAttribute", reinterpret_cast<void**>(&d.attribute)},
      {"cuDevicePrimaryCtxRetain", reinterpret_cast<void**>(&d.retain)},
      {"cuCtxSetCurrent", reinterpret_cast<void**>(&d.set_current)},
      {"cuCtxSynchronize", reinterpret_cast<void**>(&d.synchronize)},
      {"cuMemAlloc_v2", reinterpret_cast<void**>(&d.alloc)},
      {"cuMemFree_v2", reinterpret_cast<void**>(&d.free)},
      {"cuMemcpyHtoD_v2", reinterpret_cast<void**>(&d.to_device)},
      {"cuMemcpyDtoH_v2", reinterpret_cast<void**>(&d.to_host)},
      {"cuMemsetD8_v2", reinterpret_cast<void**>(&d.fill)},
      {"cuModuleLoadData", reinterpret_cast<void**>(&d.load)},
      {"cuModuleUnload", reinterpret_cast<void**>(&d.unload)},
      {"cuModuleGetFunction", reinterpret_cast<void**>(&d.function)},
      {"cuFuncSetAttribute", reinterpret_cast<void**>(&d.set_attribute)},
      {"cuLaunchKernel", reinterpret_cast<void**>(&d.launch)},
      {"cuGetErrorString", reinterpret_cast<void**>(&d.error_string)}};
  for (auto [name, function] : functions)
    if ((*function = dlsym(library, name)) == nullptr) return absl::NotFoundError(absl::StrCat("no GPU: libcuda has no ", name));
  int device = 0, major = 0, minor = 0;
  if (d.init(0) != 0 || d.device_get(&device, 0) != 0) return absl::NotFoundError("no GPU: the driver finds none");
  d.attribute(&major, kComputeMajor, device);
  d.attribute(&minor, kComputeMinor, device);
  if (d.retain(&gpu.context, device) != 0) return absl::NotFoundError("no GPU: it gives no context");
  gpu.target = absl::StrCat("sm_", major, minor, major >= 9 ? "a" : "");
  return gpu;
}

const absl::StatusOr<Gpu>& TheGpu() {
  static const auto* gpu = new absl::StatusOr<Gpu>(OpenGpu());
  return *gpu;
}

absl::Status Check(const Gpu& gpu, int code, absl::string_view what) {
  if (code == 0) return absl::OkStatus();
  const char* text = nullptr;
  gpu.driver.error_string(code, &text);
  return absl::InternalError(absl::StrCat(what, ": ", text ? text : "error", " (", code, ")"));
}

class DeviceBuffer {
 public:
  static absl::StatusOr<std::unique_ptr<DeviceBuffer>> Create(const Gpu& gpu, size_t bytes) {
    std::unique_ptr<DeviceBuffer> buffer(new DeviceBuffer(gpu, bytes));
    RETURN_IF_ERROR(Check(gpu, gpu.driver.alloc(&buffer->base_, bytes + 2 * kGuardBytes), "allocating device memory"));
    RETURN_IF_ERROR(Check(gpu, gpu.driver.fill(buffer->base_, kGuard, bytes + 2 * kGuardBytes), "filling device memory"));
    return buffer;
  }
  ~DeviceBuffer() {
    if (base_) gpu_.driver.free(base_);
  }
  DevicePointer address() const { return base_ + kGuardBytes; }
  // Whether the bytes around the buffer are as they were.
  absl::Status CheckGuards(absl::string_view name) const {
    std::vector<unsigned char> guard(kGuardBytes);
    for (DevicePointer at : {base_, address() + bytes_}) {
      RETURN_IF_ERROR(Check(gpu_, gpu_.driver.to_host(guard.data(), at, guard.size()), "reading a guard"));
      for (unsigned char byte : guard)
        if (byte != kGuard) return absl::OutOfRangeError(absl::StrCat("a write ", at == base_ ? "before" : "behind", " '", name, "'"));
    }
    return absl::OkStatus();
  }

 private:
  DeviceBuffer(const Gpu& gpu, size_t bytes) : gpu_(gpu), bytes_(bytes) {}
  const Gpu& gpu_;
  size_t bytes_;
  DevicePointer base_ = 0;
};

class GpuProgram : public LoadedProgram {
 public:
  GpuProgram(const Gpu& gpu, storage::KernelMetadata metadata) : gpu_(gpu), metadata_(std::move(metadata)) {}
  ~GpuProgram() override {
    if (module_) gpu_.driver.unload(module_);
  }

  absl::Status Load(const std::string& cubin) {
    RETURN_IF_ERROR(Check(gpu_, gpu_.driver.set_current(gpu_.context), "making the context current"));
    RETURN_IF_ERROR(Check(gpu_, gpu_.driver.load(&module_, cubin.data()), "loading the cubin"));
    RETURN_IF_ERROR(Check(gpu_, gpu_.driver.function(&function_, module_, metadata_.entry_symbol().c_str()), "finding the entry"));
    if (metadata_.shared_bytes() > 48 * 1024)
      RETURN_IF_ERROR(Check(gpu_, gpu_.driver.set_attribute(function_, kMaxDynamicSharedBytes, metadata_.shared_bytes()), "allowing shared memory"));
    return absl::OkStatus();
  }

  absl::Status Run(const std::vector<uint64_t>& params, const std::vector<Region>& regions, const uint32_t grid[3]) override {
    RETURN_IF_ERROR(Check(gpu_, gpu_.driver.set_current(gpu_.context), "making the context current"));
    std::vector<std::unique_ptr<DeviceBuffer>> buffers;
    std::vector<uint64_t> values = params;
    for (const Region& region : regions) {
      ASSIGN_OR_RETURN(auto buffer, DeviceBuffer::Create(gpu_, region.bytes));
      if (region.bytes) RETURN_IF_ERROR(Check(gpu_, gpu_.driver.to_device(buffer->address(), reinterpret_cast<void*>(region.address), region.bytes), "copying in"));
      buffers.push_back(std::move(buffer));
    }
    auto guarded = metadata_.options().extra().find("guarded");
    const bool is_guarded = guarded != metadata_.options().extra().end() && guarded->second != "0";
    for (int i = 0; i < metadata_.parameters_size(); ++i) {
      if (metadata_.parameters(i).type()[0] != '*') continue;
      uint64_t begin = 0, end = 0;
      for (size_t r = 0; r < regions.size(); ++r)
        if (params[i] >= regions[r].address && params[i] <= regions[r].address + regions[r].bytes) {
          begin = buffers[r]->address();
          end = begin + regions[r].bytes;
          values[i] = begin + (params[i] - regions[r].address);
        }
      if (is_guarded) values.insert(values.end(), {begin, end});
    }
    ASSIGN_OR_RETURN(auto report, DeviceBuffer::Create(gpu_, sizeof(GpuLaunchReport)));
    RETURN_IF_ERROR(Check(gpu_, gpu_.driver.fill(report->address(), 0, sizeof(GpuLaunchReport)), "clearing the report"));
    values.push_back(report->address());
    std::vector<void*> slots;
    for (uint64_t& value : values) slots.push_back(&value);  // little-endian: smaller parameters are the low bytes
    RETURN_IF_ERROR(Check(gpu_, gpu_.driver.launch(function_, grid[0], grid[1], grid[2], metadata_.threads(), 1, 1, metadata_.shared_bytes(), nullptr, slots.data(), nullptr),
                          "launching"));
    if (absl::Status done = Check(gpu_, gpu_.driver.synchronize(), "running the kernel"); !done.ok()) {
      // The context is lost, and with it every later test: say so once and end.
      std::fprintf(stderr, "kernel %s: %s\n", metadata_.kernel().c_str(), done.ToString().c_str());
      std::abort();
    }
    for (size_t r = 0; r < regions.size(); ++r) {
      if (regions[r].bytes) RETURN_IF_ERROR(Check(gpu_, gpu_.driver.to_host(reinterpret_cast<void*>(regions[r].address), buffers[r]->address(), regions[r].bytes), "copying out"));
      RETURN_IF_ERROR(buffers[r]->CheckGuards(regions[r].name));
    }
    auto seen = std::make_unique<GpuLaunchReport>();
    RETURN_IF_ERROR(Check(gpu_, gpu_.driver.to_host(seen.get(), report->address(), sizeof(GpuLaunchReport)), "reading the report"));
    printed = PrintedLines(*seen);
    if (seen->failed == 0) return absl::OkStatus();
    const bool known = seen->message < uint32_t(metadata_.report_messages_size());
    const std::string text = absl::StrCat(known ? metadata_.report_messages(seen->message).where() : "?", ": ", known ? metadata_.report_messages(seen->message).text() : "?",
                                          " at program (", seen->program[0], ", ", seen->program[1], ", ", seen->program[2], ")");
    return seen->kind == 0 ? absl::AbortedError(text) : absl::OutOfRangeError(text);
  }

 private:
  // In the order of programs, operations and elements; threads print in any order.
  std::string PrintedLines(const GpuLaunchReport& report) const {
    std::vector<GpuPrintRecord> records(report.records, report.records + std::min(report.prints, GpuLaunchReport::kPrintRecords));
    std::stable_sort(records.begin(), records.end(), [](const GpuPrintRecord& a, const GpuPrintRecord& b) {
      return std::tie(a.program[2], a.program[1], a.program[0], a.message, a.element) < std::tie(b.program[2], b.program[1], b.program[0], b.message, b.element);
    });
    std::string lines;
    for (const GpuPrintRecord& record : records) {
      if (record.message >= uint32_t(metadata_.report_messages_size())) continue;
      const auto& message = metadata_.report_messages(record.message);
      absl::StrAppend(&lines, runtime::PrintLine(record.program, message.text(), message.kind(), record.bits, record.element, record.elements), "\n");
    }
    return lines;
  }

  const Gpu& gpu_;
  storage::KernelMetadata metadata_;
  void* module_ = nullptr;
  void* function_ = nullptr;
};

class NvptxTarget : public Target {
 public:
  explicit NvptxTarget(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::string WhySkipped(const std::string& test) const override {
    return test == "InlineAssembly.IsRefusedWithWhatIsSupportedInstead" ? "a GPU has inline assembly" : "";
  }
  absl::StatusOr<std::unique_ptr<LoadedProgram>> Load(const storage::Artifact& artifact) override {
    auto program = std::make_unique<GpuProgram>(*TheGpu(), artifact.metadata());
    RETURN_IF_ERROR(program->Load(artifact.code()));
    return program;
  }

 private:
  std::string name_;
};

std::string TargetName() {
  const char* wanted = std::getenv("TESSERA_CONFORMANCE_GPU");
  if (wanted && *wanted) return wanted;
  return TheGpu().ok() ? TheGpu()->target : "sm_90a";
}
const RegisterTarget kRegistered(std::make_unique<NvptxTarget>(TargetName()));

class SkipWithoutGpu : public testing::Environment {
 public:
  void SetUp() override {
    if (!TheGpu().ok()) GTEST_SKIP() << "skipped: " << TheGpu().status().message();
  }
};
const testing::Environment* const kSkip = testing::AddGlobalTestEnvironment(new SkipWithoutGpu);

}  // namespace
}  // namespace tessera::conformance
