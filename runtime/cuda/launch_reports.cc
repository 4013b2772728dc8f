#include "runtime/cuda/launch_reports.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/cpu/print_lines.h"
#include "runtime/cuda/cuda_status.h"

namespace tessera::runtime {

LaunchReports::~LaunchReports() {
  for (const Report& report : made_) gpu_->driver().cuMemFreeHost(report.host);
}

absl::StatusOr<LaunchReports::Report> LaunchReports::Acquire() {
  if (free_.empty()) {
    Report made;
    void* memory = nullptr;
    RETURN_IF_CUDA_ERROR(
        gpu_->driver(),
        gpu_->driver().cuMemHostAlloc(&memory, sizeof(GpuLaunchReport), CU_MEMHOSTALLOC_DEVICEMAP),
        "allocating host memory for a launch's report");
    made.host = static_cast<GpuLaunchReport*>(memory);
    RETURN_IF_CUDA_ERROR(gpu_->driver(),
                         gpu_->driver().cuMemHostGetDevicePointer(&made.device, memory, 0),
                         "mapping host memory for a launch's report");
    made_.push_back(made);
    free_.push_back(made);
  }
  const Report report = free_.back();
  free_.pop_back();
  std::memset(report.host, 0, offsetof(GpuLaunchReport, records));
  return report;
}

absl::Status StatusOfReport(const GpuLaunchReport& report, const ReportMessages& messages,
                            const std::string& kernel) {
  if (report.failed == 0) return absl::OkStatus();
  std::string text = "it did not say why", where;
  if (report.message < static_cast<uint32_t>(messages.size())) {
    const auto& message = messages.Get(static_cast<int>(report.message));
    text = message.text();
    where = message.where();
  }
  const std::string place =
      absl::StrCat(" in kernel ", kernel, where.empty() ? "" : " at ", where, ", program (",
                   report.program[0], ", ", report.program[1], ", ", report.program[2], ")");
  if (report.kind == 0)
    return absl::AbortedError(absl::StrCat("device_assert failed: ", text, place));
  return absl::OutOfRangeError(
      absl::StrCat(text.empty() ? "an access outside the bound buffers" : text, place,
                   ", address 0x", absl::Hex(report.address)));
}

std::string PrintedText(const GpuLaunchReport& report, const ReportMessages& messages) {
  const uint32_t kept = std::min(report.prints, GpuLaunchReport::kPrintRecords);
  std::vector<GpuPrintRecord> records(report.records, report.records + kept);
  // Threads print in any order; people read by program, operation and element.
  std::stable_sort(records.begin(), records.end(),
                   [](const GpuPrintRecord& a, const GpuPrintRecord& b) {
                     auto place = [](const GpuPrintRecord& record) {
                       return std::make_tuple(record.program[2], record.program[1],
                                              record.program[0], record.message, record.element);
                     };
                     return place(a) < place(b);
                   });
  std::string text;
  for (const GpuPrintRecord& record : records) {
    if (record.message >= static_cast<uint32_t>(messages.size())) continue;
    const auto& message = messages.Get(static_cast<int>(record.message));
    text += PrintLine(record.program, message.text(), message.kind(), record.bits, record.element,
                      record.elements);
    if (!text.empty() && text.back() != '\n') text += '\n';
  }
  if (report.prints > kept)
    absl::StrAppend(&text, "[", report.prints - kept, " more values were not kept]\n");
  return text;
}

}  // namespace tessera::runtime
