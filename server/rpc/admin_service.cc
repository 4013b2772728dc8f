#include "server/rpc/admin_service.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

// Reads, writes back, reads again.
class EchoReactor : public grpc::ServerBidiReactor<api::EchoMessage, api::EchoMessage> {
 public:
  EchoReactor() { StartRead(&message_); }
  void OnReadDone(bool ok) override { ok ? StartWrite(&message_) : Finish(grpc::Status::OK); }
  void OnWriteDone(bool ok) override { ok ? StartRead(&message_) : Finish(grpc::Status::OK); }
  void OnDone() override { delete this; }

 private:
  api::EchoMessage message_;
};

}  // namespace

grpc::ServerUnaryReactor* AdminService::GetStatus(grpc::CallbackServerContext* context,
                                                  const api::GetStatusRequest*,
                                                  api::GetStatusResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  status_(response);
  call->Finish(grpc::Status::OK);
  return call;
}

grpc::ServerUnaryReactor* AdminService::Echo(grpc::CallbackServerContext* context,
                                             const api::EchoMessage* request,
                                             api::EchoMessage* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  response->set_payload(request->payload());
  call->Finish(grpc::Status::OK);
  return call;
}

grpc::ServerBidiReactor<api::EchoMessage, api::EchoMessage>* AdminService::EchoStream(
    grpc::CallbackServerContext*) {
  return new EchoReactor;
}

}  // namespace tessera::server
