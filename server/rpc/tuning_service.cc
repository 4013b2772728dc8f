#include "server/rpc/tuning_service.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/rpc/describe_module.h"
#include "server/rpc/grpc_status.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

api::Tuning TuningOnWire(const storage::TuningRecord& record) {
  api::Tuning tuning;
  tuning.set_kernel(record.kernel());
  tuning.set_module(record.module());
  tuning.set_bucket(record.bucket());
  tuning.set_device(record.device());
  tuning.set_chosen(record.chosen());
  tuning.set_pinned(record.pinned());
  tuning.set_reason(record.reason());
  tuning.set_measured_unix_seconds(record.measured_unix_seconds());
  for (const storage::TuningRecord::Trial& from : record.trials()) {
    api::Tuning::Trial* to = tuning.add_trials();
    *to->mutable_config() = ToWire(from.config());
    to->set_median_seconds(from.median_seconds());
    to->set_low_seconds(from.low_seconds());
    to->set_high_seconds(from.high_seconds());
    to->set_samples(from.samples());
    to->set_failure(from.failure());
  }
  return tuning;
}

}  // namespace

grpc::ServerUnaryReactor* TuningService::Tune(grpc::CallbackServerContext* context,
                                              const api::TuneRequest* request,
                                              api::TuneResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  tuning_thread_->Run([=] {
    absl::StatusOr<storage::TuningRecord> record = tuner_->Tune(*request);
    if (record.ok()) *response->mutable_tuning() = TuningOnWire(*record);
    call->Finish(ToGrpc(record.status(), context));
  });
  return call;
}

grpc::ServerUnaryReactor* TuningService::ListTunings(grpc::CallbackServerContext* context,
                                                     const api::ListTuningsRequest* request,
                                                     api::ListTuningsResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  for (const storage::TuningRecord& record : table_->List(request->kernel()))
    *response->add_tunings() = TuningOnWire(record);
  call->Finish(grpc::Status::OK);
  return call;
}

absl::Status TuningService::Pin(const api::PinTuningRequest& request) {
  ASSIGN_OR_RETURN(Device * device, devices_->Find(request.device()));
  std::optional<storage::TuningRecord> found;
  for (storage::TuningRecord& record : table_->List(request.kernel()))
    if ((request.module().empty() || record.module() == request.module()) &&
        record.bucket() == request.bucket() && record.device() == device->description().model)
      found = std::move(record);
  if (!found)
    return Error(absl::StatusCode::kNotFound, "NOT_TUNED",
                 absl::StrCat("nothing is measured of ", request.kernel(), " for bucket '",
                              request.bucket(), "' on ", device->name(), "; tune it first"));
  if (request.config() >= static_cast<uint32_t>(found->trials_size()))
    return Error(absl::StatusCode::kInvalidArgument, "CONFIG_UNKNOWN",
                 absl::StrCat("there are trials 0 to ", found->trials_size() - 1, ", not ",
                              request.config()));
  found->set_chosen(request.config());
  found->set_pinned(true);
  found->set_reason("pinned");
  return table_->Put(*std::move(found));
}

grpc::ServerUnaryReactor* TuningService::PinTuning(grpc::CallbackServerContext* context,
                                                   const api::PinTuningRequest* request,
                                                   api::PinTuningResponse*) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  pool_->Run([=] { call->Finish(ToGrpc(Pin(*request), context)); });
  return call;
}

grpc::ServerUnaryReactor* TuningService::ForgetTuning(grpc::CallbackServerContext* context,
                                                      const api::ForgetTuningRequest* request,
                                                      api::ForgetTuningResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  pool_->Run([=] {
    absl::StatusOr<uint32_t> forgotten =
        table_->Forget(request->kernel(), request->module(), request->bucket());
    if (forgotten.ok()) response->set_forgotten(*forgotten);
    call->Finish(ToGrpc(forgotten.status(), context));
  });
  return call;
}

grpc::ServerUnaryReactor* TuningService::SetPolicy(grpc::CallbackServerContext* context,
                                                   const api::SetPolicyRequest*,
                                                   api::SetPolicyResponse*) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  call->Finish(ToGrpc(
      Error(
          absl::StatusCode::kUnimplemented, "POLICIES",
          "tuning policies are not supported yet: launches use stored choices, and Tune measures"),
      context));
  return call;
}

grpc::ServerUnaryReactor* TuningService::ExplainTunings(grpc::CallbackServerContext* context,
                                                        const api::ExplainTuningsRequest*,
                                                        api::ExplainTuningsResponse*) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  call->Finish(ToGrpc(Error(absl::StatusCode::kUnimplemented, "EXPLAIN_TUNINGS",
                            "why kernels were tuned or not is not written down yet"),
                      context));
  return call;
}

grpc::ServerUnaryReactor* TuningService::ImportTunings(grpc::CallbackServerContext* context,
                                                       const api::ImportTuningsRequest*,
                                                       api::ImportTuningsResponse*) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  call->Finish(ToGrpc(Error(absl::StatusCode::kUnimplemented, "IMPORT_TUNINGS",
                            "tunings of others are not read yet"),
                      context));
  return call;
}

grpc::ServerUnaryReactor* TuningService::ExportTunings(grpc::CallbackServerContext* context,
                                                       const api::ExportTuningsRequest*,
                                                       api::ExportTuningsResponse*) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  call->Finish(ToGrpc(Error(absl::StatusCode::kUnimplemented, "EXPORT_TUNINGS",
                            "tunings are not written in formats of others yet"),
                      context));
  return call;
}

}  // namespace tessera::server
