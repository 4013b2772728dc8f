#ifndef TESSERA_SERVER_RPC_TUNING_SERVICE_H_
#define TESSERA_SERVER_RPC_TUNING_SERVICE_H_

#include "proto/tessera/v1/tuning.grpc.pb.h"
#include "server/compile/module_table.h"
#include "server/concurrency/task_pool.h"
#include "server/device/device_table.h"
#include "server/tuning/online_tuner.h"
#include "server/tuning/policy.h"
#include "server/tuning/tuner.h"
#include "server/tuning/tuning_table.h"

namespace tessera::server {

class TuningService : public tessera::v1::TuningService::CallbackService {
 public:
  // `tuning_thread` runs tunings, one at a time; `pool` the rest.
  struct Parts {
    Tuner* tuner;
    OnlineTuner* online;
    TuningTable* table;
    TuningPolicies* policies;
    DeviceTable* devices;
    ModuleTable* modules;
    TaskPool *tuning_thread, *pool;
  };
  explicit TuningService(Parts parts) : parts_(parts) {}

  grpc::ServerUnaryReactor* Tune(grpc::CallbackServerContext* context,
                                 const tessera::v1::TuneRequest* request,
                                 tessera::v1::TuneResponse* response) override;
  grpc::ServerUnaryReactor* ListTunings(grpc::CallbackServerContext* context,
                                        const tessera::v1::ListTuningsRequest* request,
                                        tessera::v1::ListTuningsResponse* response) override;
  grpc::ServerUnaryReactor* PinTuning(grpc::CallbackServerContext* context,
                                      const tessera::v1::PinTuningRequest* request,
                                      tessera::v1::PinTuningResponse* response) override;
  grpc::ServerUnaryReactor* ForgetTuning(grpc::CallbackServerContext* context,
                                         const tessera::v1::ForgetTuningRequest* request,
                                         tessera::v1::ForgetTuningResponse* response) override;
  grpc::ServerUnaryReactor* SetPolicy(grpc::CallbackServerContext* context,
                                      const tessera::v1::SetPolicyRequest* request,
                                      tessera::v1::SetPolicyResponse* response) override;
  grpc::ServerUnaryReactor* ExplainTunings(
      grpc::CallbackServerContext* context, const tessera::v1::ExplainTuningsRequest* request,
      tessera::v1::ExplainTuningsResponse* response) override;
  grpc::ServerUnaryReactor* ImportTunings(grpc::CallbackServerContext* context,
                                          const tessera::v1::ImportTuningsRequest* request,
                                          tessera::v1::ImportTuningsResponse* response) override;
  grpc::ServerUnaryReactor* ExportTunings(grpc::CallbackServerContext* context,
                                          const tessera::v1::ExportTuningsRequest* request,
                                          tessera::v1::ExportTuningsResponse* response) override;

 private:
  absl::Status Pin(const tessera::v1::PinTuningRequest& request);
  absl::Status ApplyPolicy(const tessera::v1::SetPolicyRequest& request,
                           tessera::v1::SetPolicyResponse* response);
  absl::Status Import(const tessera::v1::ImportTuningsRequest& request,
                      tessera::v1::ImportTuningsResponse* response);
  absl::Status Export(const tessera::v1::ExportTuningsRequest& request,
                      tessera::v1::ExportTuningsResponse* response);
  // Blocks.
  absl::StatusOr<std::shared_ptr<const Module>> LoadModule(const std::string& id);

  const Parts parts_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_RPC_TUNING_SERVICE_H_
