#ifndef TESSERA_SERVER_RPC_ADMIN_SERVICE_H_
#define TESSERA_SERVER_RPC_ADMIN_SERVICE_H_

#include <functional>

#include "proto/tessera/v1/admin.grpc.pb.h"

namespace tessera::server {

class AdminService : public tessera::v1::AdminService::CallbackService {
 public:
  // Fills in the daemon's state; must not block.
  using StatusSource = std::function<void(tessera::v1::GetStatusResponse*)>;

  explicit AdminService(StatusSource status) : status_(std::move(status)) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const tessera::v1::GetStatusRequest* request,
                                      tessera::v1::GetStatusResponse* response) override;
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context,
                                 const tessera::v1::EchoMessage* request,
                                 tessera::v1::EchoMessage* response) override;
  grpc::ServerBidiReactor<tessera::v1::EchoMessage, tessera::v1::EchoMessage>* EchoStream(
      grpc::CallbackServerContext* context) override;

 private:
  const StatusSource status_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_ADMIN_SERVICE_H_
