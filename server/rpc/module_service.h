#ifndef TESSERA_SERVER_RPC_MODULE_SERVICE_H_
#define TESSERA_SERVER_RPC_MODULE_SERVICE_H_

#include "proto/tessera/v1/modules.grpc.pb.h"
#include "server/compile/module_table.h"
#include "server/launch/launcher.h"

namespace tessera::server {

class ModuleService : public tessera::v1::ModuleService::CallbackService {
 public:
  ModuleService(ModuleTable* modules, Launcher* launcher, TaskPool* pool)
      : modules_(modules), launcher_(launcher), pool_(pool) {}

  grpc::ServerUnaryReactor* RegisterModule(grpc::CallbackServerContext* context,
                                           const tessera::v1::RegisterModuleRequest* request,
                                           tessera::v1::RegisterModuleResponse* response) override;
  grpc::ServerUnaryReactor* DescribeModule(grpc::CallbackServerContext* context,
                                           const tessera::v1::DescribeModuleRequest* request,
                                           tessera::v1::RegisterModuleResponse* response) override;
  grpc::ServerUnaryReactor* ListModules(grpc::CallbackServerContext* context,
                                        const tessera::v1::ListModulesRequest* request,
                                        tessera::v1::ListModulesResponse* response) override;
  grpc::ServerUnaryReactor* Compile(grpc::CallbackServerContext* context,
                                    const tessera::v1::CompileRequest* request,
                                    tessera::v1::CompileResponse* response) override;

 private:
  ModuleTable* const modules_;
  Launcher* const launcher_;
  TaskPool* const pool_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_MODULE_SERVICE_H_
