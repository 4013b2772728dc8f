#ifndef TESSERA_SERVER_RPC_LAUNCH_SERVICE_H_
#define TESSERA_SERVER_RPC_LAUNCH_SERVICE_H_

#include "proto/tessera/v1/launch.grpc.pb.h"
#include "server/launch/launcher.h"

namespace tessera::server {

class LaunchService : public tessera::v1::LaunchService::CallbackService {
 public:
  // `spin`: how long a unary launch may hold its thread to see the end of a short kernel without a
  // wake-up.
  LaunchService(Launcher* launcher, absl::Duration spin) : launcher_(launcher), spin_(spin) {}

  grpc::ServerUnaryReactor* Launch(grpc::CallbackServerContext* context,
                                   const tessera::v1::LaunchRequest* request,
                                   tessera::v1::LaunchResponse* response) override;
  grpc::ServerBidiReactor<tessera::v1::LaunchRequest, tessera::v1::LaunchResponse>* LaunchStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Synchronize(grpc::CallbackServerContext* context,
                                        const tessera::v1::SynchronizeRequest* request,
                                        tessera::v1::SynchronizeResponse* response) override;

 private:
  Launcher* const launcher_;
  const absl::Duration spin_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_LAUNCH_SERVICE_H_
