#include "server/launch/op_launcher.h"

#include <memory>
#include <utility>

namespace tessera::server {

void OpLauncher::Launch(const api::LaunchOpRequest& request, LaunchWait wait,
                        api::LaunchResponse* response, Launcher::Done done) {
  absl::StatusOr<api::LaunchRequest> launch = catalog_->Plan(request);
  if (!launch.ok()) {
    done(launch.status());
    return;
  }
  launch->set_session(request.session());
  launch->set_device(request.device());
  launch->set_tag(request.tag());
  {
    absl::ReaderMutexLock lock(&mutex_);
    auto found = module_ids_.find(request.op());
    if (found != module_ids_.end()) launch->set_module(found->second);
  }
  if (!launch->module().empty()) {
    launcher_->Launch(*launch, wait, response, std::move(done));
    return;
  }
  absl::StatusOr<storage::SourceFile> source = catalog_->Source(request.op());
  if (!source.ok()) {
    done(source.status());
    return;
  }
  auto kept = std::make_shared<api::LaunchRequest>(*std::move(launch));
  modules_->Register({*std::move(source)}, wait.timeout,
                     [this, kept, wait, response, op = request.op(), done = std::move(done)](
                         absl::StatusOr<std::shared_ptr<const Module>> module) {
                       if (!module.ok()) {
                         done(module.status());
                         return;
                       }
                       kept->set_module((*module)->id);
                       {
                         absl::MutexLock lock(&mutex_);
                         module_ids_[op] = (*module)->id;
                       }
                       launcher_->Launch(*kept, wait, response, done);
                     });
}

api::ListOpsResponse OpLauncher::List() const {
  api::ListOpsResponse response = catalog_->List();
  absl::ReaderMutexLock lock(&mutex_);
  for (api::ListOpsResponse::Op& op : *response.mutable_ops()) {
    auto found = module_ids_.find(op.name());
    if (found != module_ids_.end()) op.set_module(found->second);
  }
  return response;
}

}  // namespace tessera::server
