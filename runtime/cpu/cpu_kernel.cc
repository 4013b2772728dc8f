#include "runtime/cpu/cpu_kernel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/cpu/print_lines.h"

namespace tessera::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double NanosSince(Clock::time_point start) { return std::chrono::duration<double, std::nano>(Clock::now() - start).count(); }

// Of the calling thread's processor.
uint64_t ThreadNanos() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Waking a sleeping thread costs the caller 2 to 5 us: below twice that, sharing the work does not pay.
constexpr double kShortLaunchNanos = 10'000;
// A piece shorter than this costs more to hand out than to run.
constexpr double kPieceNanos = 2'000;
constexpr uint64_t kPiecesPerThread = 8;

constexpr uint64_t kMaxScratchBytes = uint64_t{1} << 30;  // as much as the compiler gives a program instance
// Above this, memory costs more to keep than to touch anew.
constexpr uint64_t kKeptScratchBytes = uint64_t{64} << 20;

constexpr uint64_t kMaxPrintedLines = 65536;  // of one launch; a block of any size can print each lane

// Scratch memory of this thread, kept between launches.
class Scratch {
 public:
  ~Scratch() { std::free(memory_); }

  // nullptr: no memory. `align` is a power of two.
  void* Reserve(uint64_t bytes, uint64_t align) {
    if (bytes == 0 || bytes > kMaxScratchBytes) return nullptr;
    if (bytes <= bytes_ && reinterpret_cast<uintptr_t>(memory_) % align == 0) return memory_;
    Release();
    if (posix_memalign(&memory_, align, bytes) != 0) memory_ = nullptr;
    if (memory_ != nullptr) bytes_ = bytes;
    return memory_;
  }

  void Trim() {
    if (bytes_ > kKeptScratchBytes) Release();
  }

 private:
  void Release() {
    std::free(memory_);
    memory_ = nullptr;
    bytes_ = 0;
  }

  void* memory_ = nullptr;
  uint64_t bytes_ = 0;
};

thread_local Scratch thread_scratch;

struct PrintedPiece {
  uint64_t first;
  std::vector<std::string> lines;
};

}  // namespace

// What the pieces of one launch share.
class CpuLaunch {
 public:
  CpuLaunch(KernelEntry entry, const Launch& launch, uint64_t scratch_bytes, uint64_t scratch_align)
      : entry_(entry), launch_(launch), scratch_bytes_(scratch_bytes), scratch_align_(scratch_align) {}

  void RunPiece(uint64_t first, uint64_t last) {
    if (failed_.load(std::memory_order_relaxed)) return;
    Piece piece{this, {first, {}}};
    KernelContext context{};
    context.print = &CpuLaunch::Print;
    context.host = &piece;
    context.scratch = thread_scratch.Reserve(scratch_bytes_, scratch_align_);
    if (context.scratch == nullptr && scratch_bytes_ != 0) {
      Fail(first, absl::ResourceExhaustedError(absl::StrCat("no memory for ", scratch_bytes_, " bytes of scratch")));
      return;
    }
    const uint64_t begin = launch_.processor_ns != nullptr ? ThreadNanos() : 0;
    entry_(launch_.params.data(), launch_.grid, first, last, &context);
    if (launch_.processor_ns != nullptr) processor_ns_.fetch_add(ThreadNanos() - begin, std::memory_order_relaxed);
    thread_scratch.Trim();
    if (!piece.printed.lines.empty()) {
      std::lock_guard<std::mutex> lock(mutex_);
      printed_.push_back(std::move(piece.printed));
    }
    if (context.failed != 0) {
      const char* message = context.failure_message;
      Fail(first, absl::AbortedError(absl::StrCat("device_assert failed: ", message == nullptr ? "" : message)));
    }
  }

  uint64_t processor_ns() const { return processor_ns_.load(std::memory_order_relaxed); }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  // When all pieces have ended: hands the printed lines over.
  absl::Status Finish() {
    std::sort(printed_.begin(), printed_.end(),
              [](const PrintedPiece& a, const PrintedPiece& b) { return a.first < b.first; });
    for (const PrintedPiece& piece : printed_)
      for (const std::string& line : piece.lines) launch_.print(line);
    const uint64_t lines = lines_.load(std::memory_order_relaxed);
    if (lines > kMaxPrintedLines) launch_.print(absl::StrCat("(", lines - kMaxPrintedLines, " more values not printed)"));
    return status_;
  }

 private:
  struct Piece {
    CpuLaunch* launch;
    PrintedPiece printed;
  };

  static void Print(KernelContext* context, const uint32_t* pid, const char* prefix, const char* kind, uint64_t bits,
                    uint64_t lane, uint64_t lanes) {
    Piece* piece = static_cast<Piece*>(context->host);
    if (!piece->launch->launch_.print) return;
    if (piece->launch->lines_.fetch_add(1, std::memory_order_relaxed) >= kMaxPrintedLines) return;
    piece->printed.lines.push_back(PrintLine(pid, prefix, kind, bits, lane, lanes));
  }

  void Fail(uint64_t first, absl::Status status) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!status_.ok() && failed_first_ < first) return;
    status_ = std::move(status);
    failed_first_ = first;
    failed_.store(true, std::memory_order_relaxed);
  }

  const KernelEntry entry_;
  const Launch& launch_;
  const uint64_t scratch_bytes_;
  const uint64_t scratch_align_;
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> processor_ns_{0};
  std::atomic<uint64_t> lines_{0};
  std::mutex mutex_;
  std::vector<PrintedPiece> printed_;  // guarded by mutex_
  absl::Status status_;                // guarded by mutex_
  uint64_t failed_first_ = 0;          // guarded by mutex_
};

CpuKernel::CpuKernel(KernelEntry entry, const storage::KernelMetadata& metadata, ThreadPool* pool,
                     std::shared_ptr<void> code)
    : entry_(entry), name_(metadata.kernel()), parameters_(metadata.parameters_size()),
      scratch_bytes_(metadata.scratch_bytes()), scratch_align_(std::max<uint64_t>(64, metadata.scratch_align())),
      pool_(pool), code_(std::move(code)), instance_nanos_(std::numeric_limits<double>::infinity()) {
  TESSERA_CHECK((scratch_align_ & (scratch_align_ - 1)) == 0, "scratch alignment is a power of two");
}

// Runs a launch that should be short on this thread. Instances may turn out to be longer than those of the last
// launch: then it stops, and returns where.
uint64_t CpuKernel::RunShort(CpuLaunch& launch, uint64_t first, uint64_t last) {
  if (pool_->threads() > 1 && instance_nanos_.load(std::memory_order_relaxed) * (last - first) > kShortLaunchNanos)
    return first;
  const Clock::time_point start = Clock::now();
  uint64_t at = first;
  double nanos = 0;
  for (uint64_t piece = 1; at < last && !launch.failed(); piece *= 2) {
    const uint64_t end = std::min(last, at + piece);
    launch.RunPiece(at, end);
    at = end;
    nanos = NanosSince(start);
    if (nanos > kShortLaunchNanos) break;
  }
  instance_nanos_.store(nanos / (at - first), std::memory_order_relaxed);
  return at;
}

absl::Status CpuKernel::Run(const Launch& request) {
  if (request.params.size() != parameters_)
    return absl::InvalidArgumentError(absl::StrCat("kernel ", name_, " takes ", parameters_, " parameters, the launch has ",
                                                   request.params.size()));
  const uint64_t plane = uint64_t{request.grid[0]} * request.grid[1];
  if (request.grid[2] != 0 && plane > (uint64_t{1} << 62) / request.grid[2])
    return absl::InvalidArgumentError(absl::StrCat("kernel ", name_, ": the grid has 2^62 program instances or more"));
  const uint64_t total = plane * request.grid[2];
  const uint64_t first = std::min(request.first, total), last = request.last == 0 ? total : std::min(request.last, total);
  const uint64_t count = last - std::min(first, last);
  CpuLaunch launch(entry_, request, scratch_bytes_, scratch_align_);
  bool in_threads = false;
  if (count == 1) {
    launch.RunPiece(first, last);
  } else if (count > 1) {
    const uint64_t begin = RunShort(launch, first, last);
    if (begin < last && !launch.failed()) {
      in_threads = true;
      const uint64_t rest = last - begin;
      const uint64_t threads = pool_->threads();
      const uint64_t cheap = static_cast<uint64_t>(kPieceNanos / std::max(1.0, instance_nanos_.load(std::memory_order_relaxed)));
      // Of a part in pieces as long as the whole grid's: neighbours share memory.
      const uint64_t of_whole = count == total ? rest : total;
      const uint64_t chunk =
          std::max(std::min(of_whole / (threads * kPiecesPerThread), std::max<uint64_t>(rest / threads, 1)),
                   std::min(cheap, rest / threads));
      std::atomic<uint64_t> nanos{0};  // without the time that handing out takes
      pool_->ParallelFor(begin, last, std::max<uint64_t>(1, chunk), [&](uint64_t from, uint64_t to) {
        const Clock::time_point start = Clock::now();
        launch.RunPiece(from, to);
        nanos.fetch_add(static_cast<uint64_t>(NanosSince(start)), std::memory_order_relaxed);
      });
      instance_nanos_.store(static_cast<double>(nanos.load(std::memory_order_relaxed)) / rest, std::memory_order_relaxed);
    }
  }
  if (request.processor_ns != nullptr && count > 0) {
    const uint64_t threads = in_threads ? static_cast<uint64_t>(pool_->threads()) : 1;
    *request.processor_ns = launch.processor_ns() * ((count + threads - 1) / threads) / count;
  }
  absl::Status status = launch.Finish();
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("kernel ", name_, ": ", status.message()));
}

}  // namespace tessera::runtime
