#ifndef TESSERA_SERVER_RPC_MEMORY_SERVICE_H_
#define TESSERA_SERVER_RPC_MEMORY_SERVICE_H_

#include "proto/tessera/v1/memory.grpc.pb.h"
#include "server/concurrency/task_pool.h"
#include "server/device/device_table.h"
#include "server/session/session_registry.h"

namespace tessera::server {

class MemoryService : public tessera::v1::MemoryService::CallbackService {
 public:
  // `allow_tcp`: clients that come over TCP may have memory here. `allow_posix_shm`: see
  // server/config.
  MemoryService(SessionRegistry* sessions, DeviceTable* devices, TaskPool* pool, bool allow_tcp,
                bool allow_posix_shm)
      : sessions_(sessions),
        devices_(devices),
        pool_(pool),
        allow_tcp_(allow_tcp),
        allow_posix_shm_(allow_posix_shm) {}

  grpc::ServerUnaryReactor* OpenSession(grpc::CallbackServerContext* context,
                                        const tessera::v1::OpenSessionRequest* request,
                                        tessera::v1::OpenSessionResponse* response) override;
  grpc::ServerUnaryReactor* ConfigureSession(
      grpc::CallbackServerContext* context, const tessera::v1::ConfigureSessionRequest* request,
      tessera::v1::ConfigureSessionResponse* response) override;
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context,
                                         const tessera::v1::CloseSessionRequest* request,
                                         tessera::v1::CloseSessionResponse* response) override;
  grpc::ServerUnaryReactor* RenewSession(grpc::CallbackServerContext* context,
                                         const tessera::v1::RenewSessionRequest* request,
                                         tessera::v1::RenewSessionResponse* response) override;
  grpc::ServerUnaryReactor* ImportMemory(grpc::CallbackServerContext* context,
                                         const tessera::v1::ImportMemoryRequest* request,
                                         tessera::v1::ImportMemoryResponse* response) override;
  grpc::ServerUnaryReactor* AllocateMemory(grpc::CallbackServerContext* context,
                                           const tessera::v1::AllocateMemoryRequest* request,
                                           tessera::v1::AllocateMemoryResponse* response) override;
  grpc::ServerUnaryReactor* ReleaseMemory(grpc::CallbackServerContext* context,
                                          const tessera::v1::ReleaseMemoryRequest* request,
                                          tessera::v1::ReleaseMemoryResponse* response) override;
  grpc::ServerUnaryReactor* CopyMemory(grpc::CallbackServerContext* context,
                                       const tessera::v1::CopyMemoryRequest* request,
                                       tessera::v1::CopyMemoryResponse* response) override;
  grpc::ServerUnaryReactor* ImportEvent(grpc::CallbackServerContext* context,
                                        const tessera::v1::ImportEventRequest* request,
                                        tessera::v1::ImportEventResponse* response) override;
  grpc::ServerUnaryReactor* ReleaseEvent(grpc::CallbackServerContext* context,
                                         const tessera::v1::ReleaseEventRequest* request,
                                         tessera::v1::ReleaseEventResponse* response) override;
  grpc::ServerUnaryReactor* ListMemory(grpc::CallbackServerContext* context,
                                       const tessera::v1::ListMemoryRequest* request,
                                       tessera::v1::ListMemoryResponse* response) override;

 private:
  absl::Status CheckTransport(const grpc::CallbackServerContext& context) const;
  absl::StatusOr<std::shared_ptr<Region>> Import(const tessera::v1::ImportMemoryRequest& request);

  SessionRegistry* const sessions_;
  DeviceTable* const devices_;
  TaskPool* const pool_;
  const bool allow_tcp_, allow_posix_shm_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_MEMORY_SERVICE_H_
