#include "server/rpc/ops_service.h"

#include "server/rpc/grpc_status.h"

namespace tessera::server {

grpc::ServerUnaryReactor* OpsService::LaunchOp(grpc::CallbackServerContext* context,
                                               const api::LaunchOpRequest* request,
                                               api::LaunchResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  LaunchWait wait;
  wait.timeout = TimeLeft(*context);
  wait.spin = spin_;
  ops_->Launch(*request, wait, response,
               [=](absl::Status status) { call->Finish(ToGrpc(status, context)); });
  return call;
}

grpc::ServerUnaryReactor* OpsService::ListOps(grpc::CallbackServerContext* context,
                                              const api::ListOpsRequest*,
                                              api::ListOpsResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  *response = ops_->List();
  call->Finish(grpc::Status::OK);
  return call;
}

}  // namespace tessera::server
