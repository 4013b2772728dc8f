#ifndef TESSERA_SERVER_RPC_OPS_SERVICE_H_
#define TESSERA_SERVER_RPC_OPS_SERVICE_H_

#include "proto/tessera/v1/ops.grpc.pb.h"
#include "server/launch/op_launcher.h"

namespace tessera::server {

class OpsService : public tessera::v1::OpsService::CallbackService {
 public:
  OpsService(OpLauncher* ops, absl::Duration spin) : ops_(ops), spin_(spin) {}

  grpc::ServerUnaryReactor* LaunchOp(grpc::CallbackServerContext* context,
                                     const tessera::v1::LaunchOpRequest* request,
                                     tessera::v1::LaunchResponse* response) override;
  grpc::ServerUnaryReactor* ListOps(grpc::CallbackServerContext* context,
                                    const tessera::v1::ListOpsRequest* request,
                                    tessera::v1::ListOpsResponse* response) override;

 private:
  OpLauncher* const ops_;
  const absl::Duration spin_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_OPS_SERVICE_H_
