#ifndef TESSERA_SERVER_RPC_WARMUP_SERVICE_H_
#define TESSERA_SERVER_RPC_WARMUP_SERVICE_H_

#include "proto/tessera/v1/warmup.grpc.pb.h"
#include "server/warmup/warmup.h"

namespace tessera::server {

class WarmupService : public tessera::v1::WarmupService::CallbackService {
 public:
  explicit WarmupService(class Warmup* warmup) : warmup_(warmup) {}

  grpc::ServerWriteReactor<tessera::v1::WarmupProgress>* Warmup(
      grpc::CallbackServerContext* context, const tessera::v1::WarmupRequest* request) override;
  grpc::ServerUnaryReactor* GetWarmup(grpc::CallbackServerContext* context,
                                      const tessera::v1::GetWarmupRequest* request,
                                      tessera::v1::WarmupProgress* response) override;

 private:
  class Warmup* const warmup_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_WARMUP_SERVICE_H_
