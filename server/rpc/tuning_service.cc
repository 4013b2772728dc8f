#include "server/rpc/tuning_service.h"

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/rpc/describe_module.h"
#include "server/rpc/grpc_status.h"
#include "server/status/error_detail.h"
#include "server/tuning/exchange.h"

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
  tuning.set_sample(record.sample());
  tuning.set_tuning_seconds(record.tuning_seconds());
  *tuning.mutable_warnings() = record.warnings();
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

// The latest decision, and the values of the bucket that have a choice of their own: the decision
// need not be about them.
std::string DecisionText(const TuningTable& table, const TuningSite& site,
                         const TuningSite::Decision& decision) {
  std::set<std::string> parts;
  for (const TuningSite::Sample& sample : site.Samples()) {
    std::optional<storage::TuningRecord> record =
        table.Record(site.kernel, site.source, sample.exact, site.model);
    if (!record || !record->split()) continue;
    if (record->chosen() >= static_cast<uint32_t>(record->trials_size())) continue;
    const storage::TuneConfig& chosen = record->trials(static_cast<int>(record->chosen())).config();
    parts.insert(absl::StrCat(sample.exact, " runs with ", ConfigText(chosen)));
  }
  std::string splits = absl::StrJoin(parts, "; ");
  return absl::StrCat(decision.text, decision.text.empty() || splits.empty() ? "" : "; ", splits);
}

absl::Status KernelUnknown(const std::string& kernel) {
  return Error(absl::StatusCode::kNotFound, "KERNEL_UNKNOWN",
               absl::StrCat("the module has no kernel '", kernel, "'"));
}

absl::Status BadFormat(const std::string& format) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_FORMAT",
               absl::StrCat("'", format, "' is no format of tunings; accepted: triton, "
                            "serving-engine"));
}

}  // namespace

grpc::ServerUnaryReactor* TuningService::Tune(grpc::CallbackServerContext* context,
                                              const api::TuneRequest* request,
                                              api::TuneResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  parts_.tuning_thread->Run([=] {
    absl::StatusOr<storage::TuningRecord> record = parts_.tuner->Tune(*request);
    if (record.ok()) *response->mutable_tuning() = TuningOnWire(*record);
    call->Finish(ToGrpc(record.status(), context));
  });
  return call;
}

grpc::ServerUnaryReactor* TuningService::ListTunings(grpc::CallbackServerContext* context,
                                                     const api::ListTuningsRequest* request,
                                                     api::ListTuningsResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  for (const storage::TuningRecord& record : parts_.table->List(request->kernel()))
    *response->add_tunings() = TuningOnWire(record);
  call->Finish(grpc::Status::OK);
  return call;
}

absl::Status TuningService::Pin(const api::PinTuningRequest& request) {
  ASSIGN_OR_RETURN(Device * device, parts_.devices->Find(request.device()));
  std::optional<storage::TuningRecord> found;
  for (storage::TuningRecord& record : parts_.table->List(request.kernel()))
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
  absl::Status put = parts_.table->Put(*std::move(found));
  parts_.online->ReviewAll();
  return put;
}

grpc::ServerUnaryReactor* TuningService::PinTuning(grpc::CallbackServerContext* context,
                                                   const api::PinTuningRequest* request,
                                                   api::PinTuningResponse*) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  parts_.pool->Run([=] { call->Finish(ToGrpc(Pin(*request), context)); });
  return call;
}

grpc::ServerUnaryReactor* TuningService::ForgetTuning(grpc::CallbackServerContext* context,
                                                      const api::ForgetTuningRequest* request,
                                                      api::ForgetTuningResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  parts_.pool->Run([=] {
    absl::StatusOr<uint32_t> forgotten =
        parts_.table->Forget(request->kernel(), request->module(), request->bucket());
    if (forgotten.ok()) response->set_forgotten(*forgotten);
    parts_.online->ReviewAll();
    call->Finish(ToGrpc(forgotten.status(), context));
  });
  return call;
}

absl::Status TuningService::ApplyPolicy(const api::SetPolicyRequest& request,
                                        api::SetPolicyResponse* response) {
  TuningPolicy policy = *parts_.policies->Of(request.kernel());
  if (!request.policy().empty())
    RETURN_IF_ERROR(TuningPolicy::ParseKind(request.policy(), &policy));
  if (request.has_frozen()) policy.frozen = request.frozen();
  for (const auto& [argument, text] : request.buckets()) {
    ASSIGN_OR_RETURN(policy.buckets[argument], BucketRule::Parse(text));
  }
  parts_.policies->Set(request.kernel(), policy);
  parts_.online->ReviewAll();
  response->set_policy(policy.KindText());
  response->set_frozen(policy.frozen);
  for (const auto& [argument, rule] : policy.buckets)
    (*response->mutable_buckets())[argument] = rule.ToString();
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TuningService::SetPolicy(grpc::CallbackServerContext* context,
                                                   const api::SetPolicyRequest* request,
                                                   api::SetPolicyResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  call->Finish(ToGrpc(ApplyPolicy(*request, response), context));
  return call;
}

grpc::ServerUnaryReactor* TuningService::ExplainTunings(grpc::CallbackServerContext* context,
                                                        const api::ExplainTuningsRequest* request,
                                                        api::ExplainTuningsResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  for (const std::shared_ptr<TuningSite>& site : parts_.table->Sites(request->kernel())) {
    api::ExplainTuningsResponse::Site* to = response->add_sites();
    to->set_kernel(site->kernel);
    to->set_module(site->module);
    to->set_bucket(site->bucket);
    to->set_device(site->device);
    to->set_policy(parts_.policies->Of(site->kernel)->KindText());
    to->set_calls(site->calls());
    to->set_call_seconds(site->call_seconds());
    TuningSite::InForce in_force = site->choice("");
    if (in_force.config != nullptr) to->set_config(ConfigText(in_force.config->config));
    to->set_config_from(in_force.from);
    TuningSite::Decision decision = site->decision();
    to->set_state(decision.state);
    to->set_decision(DecisionText(*parts_.table, *site, decision));
    for (std::string& warning : decision.warnings) to->add_warnings(std::move(warning));
  }
  parts_.online->FillBudget(response->mutable_budget());
  call->Finish(grpc::Status::OK);
  return call;
}

absl::StatusOr<std::shared_ptr<const Module>> TuningService::LoadModule(const std::string& id) {
  using Loaded = absl::StatusOr<std::shared_ptr<const Module>>;
  // Shared: set_value may still run when the waiter has gone on.
  auto loaded = std::make_shared<std::promise<Loaded>>();
  parts_.modules->Load(id, absl::InfiniteDuration(),
                       [loaded](Loaded module) { loaded->set_value(std::move(module)); });
  return loaded->get_future().get();
}

absl::Status TuningService::Import(const api::ImportTuningsRequest& request,
                                   api::ImportTuningsResponse* response) {
  ASSIGN_OR_RETURN(Device * device, parts_.devices->Find(request.device()));
  ASSIGN_OR_RETURN(std::shared_ptr<const Module> module, LoadModule(request.module()));
  const storage::KernelDescription* kernel = module->FindKernel(request.kernel());
  if (kernel == nullptr) return KernelUnknown(request.kernel());
  ForeignTunings foreign;
  if (request.format() == "triton") {
    ASSIGN_OR_RETURN(foreign, ReadTritonAutotune(request.content(), *kernel));
  } else if (request.format() == "serving-engine") {
    ASSIGN_OR_RETURN(foreign, ReadServingEngineFile(request.name(), request.content(), *kernel,
                                                    request.batch_argument()));
  } else {
    return BadFormat(request.format());
  }
  const std::string& model = device->description().model;
  if (!foreign.device_name.empty() && !SameDeviceName(foreign.device_name, model))
    return Error(absl::StatusCode::kInvalidArgument, "OTHER_DEVICE",
                 absl::StrCat("the file is of ", foreign.device_name, ", but ", device->name(),
                              " is ", model));
  for (std::string& note : foreign.notes) response->add_notes(std::move(note));
  std::shared_ptr<const TuningPolicy> policy = parts_.policies->Of(request.kernel());
  for (ForeignTuning& tuning : foreign.tunings) {
    storage::TuningRecord record;
    record.set_kernel(request.kernel());
    record.set_module(request.module());
    record.set_source(SourceDigest(*kernel));
    record.set_device(model);
    record.set_bucket(BucketText(tuning, [&](absl::string_view argument, int64_t value) {
      const BucketRule* rule = policy->RuleOf(std::string(argument));
      return (rule == nullptr ? policy->DefaultRule() : *rule).Label(value);
    }));
    if (parts_.table->Record(record.kernel(), record.source(), record.bucket(), model)) {
      response->add_notes(
          absl::StrCat(record.bucket(), ": left out, for a choice is here already"));
      continue;
    }
    for (storage::TuningRecord::Trial& trial : tuning.trials)
      *record.add_trials() = std::move(trial);
    record.set_chosen(tuning.chosen);
    record.set_measured_unix_seconds(absl::ToUnixSeconds(absl::Now()));
    record.set_reason(absl::StrCat("imported", request.name().empty() ? "" : " from ",
                                   request.name()));
    RETURN_IF_ERROR(parts_.table->Put(std::move(record)));
    response->set_imported(response->imported() + 1);
  }
  return absl::OkStatus();
}

absl::Status TuningService::Export(const api::ExportTuningsRequest& request,
                                   api::ExportTuningsResponse* response) {
  ASSIGN_OR_RETURN(Device * device, parts_.devices->Find(request.device()));
  const std::string& model = device->description().model;
  std::vector<storage::TuningRecord> records;
  for (storage::TuningRecord& record : parts_.table->List(request.kernel()))
    if (record.device() == model &&
        (request.module().empty() || record.module() == request.module()))
      records.push_back(std::move(record));
  if (request.kernel().empty() || records.empty())
    return Error(absl::StatusCode::kNotFound, "NOT_TUNED",
                 absl::StrCat("no tunings of kernel '", request.kernel(), "' for ", model));
  // Of one source: the one measured last.
  auto last = std::max_element(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return a.measured_unix_seconds() < b.measured_unix_seconds();
  });
  std::string source = last->source();
  ASSIGN_OR_RETURN(std::shared_ptr<const Module> module, LoadModule(last->module()));
  const storage::KernelDescription* kernel = module->FindKernel(request.kernel());
  if (kernel == nullptr) return KernelUnknown(request.kernel());
  records.erase(std::remove_if(records.begin(), records.end(),
                               [&](const auto& record) { return record.source() != source; }),
                records.end());
  std::vector<std::string> notes;
  std::vector<ExchangeFile> files;
  if (request.format() == "triton") {
    files = WriteTritonAutotune(records, *kernel, &notes);
  } else if (request.format() == "serving-engine") {
    ASSIGN_OR_RETURN(files, WriteServingEngineFiles(records, *kernel, request.batch_argument(),
                                                    &notes));
  } else {
    return BadFormat(request.format());
  }
  for (ExchangeFile& file : files) {
    api::ExportTuningsResponse::File* to = response->add_files();
    to->set_name(std::move(file.name));
    to->set_content(std::move(file.content));
  }
  for (std::string& note : notes) response->add_notes(std::move(note));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TuningService::ImportTunings(grpc::CallbackServerContext* context,
                                                       const api::ImportTuningsRequest* request,
                                                       api::ImportTuningsResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  parts_.pool->Run([=] { call->Finish(ToGrpc(Import(*request, response), context)); });
  return call;
}

grpc::ServerUnaryReactor* TuningService::ExportTunings(grpc::CallbackServerContext* context,
                                                       const api::ExportTuningsRequest* request,
                                                       api::ExportTuningsResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  parts_.pool->Run([=] { call->Finish(ToGrpc(Export(*request, response), context)); });
  return call;
}

}  // namespace tessera::server
