#include "runtime/cuda/test_kernels.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/kernel_abi.h"
#include "runtime/ring/futex.h"

namespace tessera::runtime {
namespace {

constexpr char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .entry add_one(.param .u64 x, .param .u32 n)
{
  .reg .pred %p;
  .reg .b32 %r<6>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [x];
  ld.param.u32 %r0, [n];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  setp.ge.s32 %p, %r4, %r0;
  @%p bra DONE;
  cvta.to.global.u64 %d1, %d0;
  mul.wide.s32 %d2, %r4, 4;
  add.s64 %d3, %d1, %d2;
  ld.global.u32 %r5, [%d3];
  add.s32 %r5, %r5, 1;
  st.global.u32 [%d3], %r5;
DONE:
  ret;
}

.visible .entry wait_flag(.param .u64 flag)
{
  .reg .pred %p;
  .reg .b32 %r<2>;
  .reg .b64 %d<2>;
  ld.param.u64 %d0, [flag];
  cvta.to.global.u64 %d1, %d0;
AGAIN:
  ld.volatile.global.u32 %r0, [%d1];
  setp.eq.s32 %p, %r0, 0;
  @%p bra AGAIN;
  ret;
}

.visible .entry spin(.param .u64 nanoseconds)
{
  .reg .pred %p;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [nanoseconds];
  mov.u64 %d1, %globaltimer;
AGAIN:
  mov.u64 %d2, %globaltimer;
  sub.u64 %d3, %d2, %d1;
  setp.lt.u64 %p, %d3, %d0;
  @%p bra AGAIN;
  ret;
}

.visible .entry report(.param .u32 code, .param .u64 out)
{
  .reg .pred %p;
  .reg .b32 %r<3>;
  .reg .b64 %d<3>;
  ld.param.u32 %r0, [code];
  ld.param.u64 %d0, [out];
  cvta.to.global.u64 %d1, %d0;
  mov.u32 %r1, %tid.x;
  setp.ne.s32 %p, %r1, 0;
  @%p bra DONE;
  mov.u32 %r2, 1;
  setp.ne.s32 %p, %r0, 0;
  @%p bra FAIL;
  st.global.u32 [%d1+32], %r2;
  mov.u64 %d2, 7;
  st.global.u64 [%d1+64], %d2;
  mov.u32 %r1, 0;
  st.global.u32 [%d1+72], %r1;
  st.global.u32 [%d1+76], %r1;
  st.global.u32 [%d1+80], %r1;
  st.global.u32 [%d1+84], %r1;
  st.global.u32 [%d1+88], %r1;
  st.global.u32 [%d1+92], %r2;
  bra DONE;
FAIL:
  sub.s32 %r1, %r0, 1;
  st.global.u32 [%d1+4], %r1;
  st.global.u32 [%d1+8], %r0;
  st.global.u32 [%d1], %r2;
DONE:
  ret;
}

.visible .entry guarded_add_one(.param .u64 x, .param .u32 n, .param .u64 first, .param .u64 end,
                                .param .u64 out)
{
  .reg .pred %p;
  .reg .b32 %r<6>;
  .reg .b64 %d<8>;
  ld.param.u64 %d0, [x];
  ld.param.u32 %r0, [n];
  ld.param.u64 %d4, [first];
  ld.param.u64 %d5, [end];
  ld.param.u64 %d6, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  setp.ge.s32 %p, %r4, %r0;
  @%p bra DONE;
  mul.wide.s32 %d2, %r4, 4;
  add.s64 %d3, %d0, %d2;
  setp.lt.u64 %p, %d3, %d4;
  @%p bra FAIL;
  add.s64 %d7, %d3, 4;
  setp.gt.u64 %p, %d7, %d5;
  @%p bra FAIL;
  cvta.to.global.u64 %d3, %d3;
  ld.global.u32 %r5, [%d3];
  add.s32 %r5, %r5, 1;
  st.global.u32 [%d3], %r5;
  bra DONE;
FAIL:
  cvta.to.global.u64 %d6, %d6;
  mov.u32 %r5, 1;
  st.global.u64 [%d6+24], %d3;
  st.global.u32 [%d6+4], %r5;
  st.global.u32 [%d6], %r5;
DONE:
  ret;
}

.visible .entry fault()
{
  .reg .b32 %r<1>;
  .reg .b64 %d<1>;
  mov.u64 %d0, 4096;
  mov.u32 %r0, 1;
  st.global.u32 [%d0], %r0;
  ret;
}
)";

const std::map<std::string, std::vector<const char*>>& ParameterTypes() {
  static const auto* types =
      new std::map<std::string, std::vector<const char*>>{{"add_one", {"*i32", "i32"}},
                                                          {"wait_flag", {"*i32"}},
                                                          {"spin", {"i64"}},
                                                          {"fault", {}},
                                                          {"report", {"i32"}},
                                                          {"guarded_add_one", {"*i32", "i32"}}};
  return *types;
}

bool AddOne(const uint64_t* params, uint64_t programs, const std::function<bool()>&) {
  auto* x = reinterpret_cast<int32_t*>(params[0]);
  const auto n = std::min<uint64_t>(static_cast<uint32_t>(params[1]), programs * 128);
  for (uint64_t i = 0; i < n; ++i) ++x[i];
  return true;
}

bool WaitFlag(const uint64_t* params, uint64_t, const std::function<bool()>& stop) {
  auto* flag = reinterpret_cast<std::atomic<int32_t>*>(params[0]);
  while (flag->load() == 0 && !stop()) std::this_thread::yield();
  return true;
}

bool Spin(const uint64_t* params, uint64_t, const std::function<bool()>& stop) {
  const uint64_t end = MonotonicNanos() + params[0];
  while (MonotonicNanos() < end && !stop()) std::this_thread::yield();
  return true;
}

bool Report(const uint64_t* params, uint64_t, const std::function<bool()>&) {
  const auto code = static_cast<uint32_t>(params[0]);
  auto* report = reinterpret_cast<GpuLaunchReport*>(params[1]);
  if (code == 0) {
    report->records[0] = {7, 0, {0, 0, 0}, 0, 1};
    report->prints = 1;
  } else {
    report->kind = code - 1;
    report->message = code;
    report->failed = 1;
  }
  return true;
}

bool GuardedAddOne(const uint64_t* params, uint64_t programs, const std::function<bool()>&) {
  const auto n = std::min<uint64_t>(static_cast<uint32_t>(params[1]), programs * 128);
  auto* report = reinterpret_cast<GpuLaunchReport*>(params[4]);
  for (uint64_t at = params[0]; at < params[0] + 4 * n; at += 4) {
    if (at >= params[2] && at + 4 <= params[3]) {
      ++*reinterpret_cast<int32_t*>(at);
    } else if (report->failed == 0) {
      report->kind = report->failed = 1;
      report->address = at;
    }
  }
  return true;
}

bool Fault(const uint64_t*, uint64_t, const std::function<bool()>&) { return false; }

}  // namespace

storage::Artifact GpuTestKernel(const std::string& kernel) {
  auto types = ParameterTypes().find(kernel);
  TESSERA_CHECK(types != ParameterTypes().end(), "there is no such test kernel");
  storage::Artifact artifact;
  artifact.set_format_version(1);
  artifact.set_code(kPtx);
  storage::KernelMetadata* metadata = artifact.mutable_metadata();
  metadata->set_kernel(kernel);
  metadata->set_entry_symbol(kernel);
  metadata->set_target("sm_90a");
  metadata->mutable_options()->set_num_warps(types->second.size() == 2 ? 4 : 1);
  int index = 0;
  for (const char* type : types->second) {
    storage::EntryParameter* parameter = metadata->add_parameters();
    parameter->set_name("p" + std::to_string(index));
    parameter->set_type(type);
    parameter->set_source_index(index++);
  }
  if (kernel == "report") {
    for (const char* text : {"seven: ", "x > 0", "store outside 'x'"}) {
      auto* message = metadata->add_report_messages();
      message->set_text(text);
      message->set_where("kernel.py:12");
    }
    metadata->mutable_report_messages(0)->set_kind("i64");
  }
  if (kernel == "guarded_add_one") {
    (*metadata->mutable_options()->mutable_extra())["guarded"] = "1";
    metadata->set_kernel("add_one");
    auto* message = metadata->add_report_messages();
    message->set_text("access of 4 bytes outside 'x'");
    message->set_where("kernel.py:3");
  }
  return artifact;
}

const TestKernelFunction* FindTestKernel(const std::string& entry) {
  static const auto* functions =
      new std::map<std::string, TestKernelFunction>{{"add_one", {2, AddOne}},
                                                    {"wait_flag", {1, WaitFlag}},
                                                    {"spin", {1, Spin}},
                                                    {"fault", {0, Fault}},
                                                    {"report", {2, Report}},
                                                    {"guarded_add_one", {5, GuardedAddOne}}};
  auto found = functions->find(entry);
  return found == functions->end() ? nullptr : &found->second;
}

}  // namespace tessera::runtime
