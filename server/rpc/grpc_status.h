// absl::Status in gRPC's terms. The only place that knows both.
#ifndef TESSERA_SERVER_RPC_GRPC_STATUS_H_
#define TESSERA_SERVER_RPC_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "proto/tessera/v1/launch.pb.h"

namespace tessera::server {

grpc::Status ToGrpc(const absl::Status& status);

// ToGrpc, with the ErrorDetail in the trailer "tessera-error-bin". Before Finish.
grpc::Status ToGrpc(const absl::Status& status, grpc::CallbackServerContext* context);

// For streams: the status of one launch, in its response.
void SetStatus(const absl::Status& status, tessera::v1::LaunchResponse* response);

// What is left of the call's deadline; infinite without one.
absl::Duration TimeLeft(const grpc::CallbackServerContext& context);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_GRPC_STATUS_H_
