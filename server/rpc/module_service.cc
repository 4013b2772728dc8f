#include "server/rpc/module_service.h"

#include <utility>

#include "server/rpc/describe_module.h"
#include "server/rpc/grpc_status.h"

namespace tessera::server {

grpc::ServerUnaryReactor* ModuleService::RegisterModule(grpc::CallbackServerContext* context,
                                                        const api::RegisterModuleRequest* request,
                                                        api::RegisterModuleResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  std::vector<storage::SourceFile> files;
  for (const api::SourceFile& from : request->files()) {
    storage::SourceFile file;
    file.set_path(from.path());
    file.set_text(from.text());
    files.push_back(std::move(file));
  }
  modules_->Register(std::move(files), TimeLeft(*context),
                     [=](absl::StatusOr<std::shared_ptr<const Module>> module) {
                       if (module.ok()) DescribeOnWire(**module, response);
                       call->Finish(ToGrpc(module.status(), context));
                     });
  return call;
}

grpc::ServerUnaryReactor* ModuleService::DescribeModule(grpc::CallbackServerContext* context,
                                                        const api::DescribeModuleRequest* request,
                                                        api::RegisterModuleResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  modules_->Load(request->module(), TimeLeft(*context),
                 [=](absl::StatusOr<std::shared_ptr<const Module>> module) {
                   if (module.ok()) DescribeOnWire(**module, response);
                   call->Finish(ToGrpc(module.status(), context));
                 });
  return call;
}

grpc::ServerUnaryReactor* ModuleService::ListModules(grpc::CallbackServerContext* context,
                                                     const api::ListModulesRequest*,
                                                     api::ListModulesResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  pool_->Run([=] {
    absl::Status status =
        modules_->ForEachStored([&](const std::string& id, const storage::ModuleRecord& record) {
          api::ListModulesResponse::Entry* entry = response->add_modules();
          entry->set_module(id);
          if (record.files_size() > 0) entry->set_path(record.files(0).path());
          for (const storage::KernelDescription& kernel : record.description().kernels())
            if (kernel.is_kernel()) entry->add_kernels(kernel.name());
        });
    call->Finish(ToGrpc(status, context));
  });
  return call;
}

grpc::ServerUnaryReactor* ModuleService::Compile(grpc::CallbackServerContext* context,
                                                 const api::CompileRequest* request,
                                                 api::CompileResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  launcher_->Compile(
      *request, TimeLeft(*context), [=](absl::StatusOr<Launcher::CompiledVariant> compiled) {
        if (compiled.ok()) {
          response->set_key(compiled->key_hex);
          response->set_outcome(OutcomeName(compiled->outcome));
          response->set_compile_seconds(compiled->compile_seconds);
          response->mutable_stages()->insert(compiled->stages.begin(), compiled->stages.end());
          for (const std::string& note : compiled->notes) response->add_notes(note);
        }
        call->Finish(ToGrpc(compiled.status(), context));
      });
  return call;
}

}  // namespace tessera::server
