#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/common_options.h"

namespace tessera::cli {
namespace {

std::string Bytes(uint64_t bytes) {
  if (bytes < 10240) return absl::StrFormat("%d B", bytes);
  if (bytes < (10u << 20)) return absl::StrFormat("%.1f KiB", bytes / 1024.0);
  return absl::StrFormat("%.1f MiB", bytes / 1048576.0);
}

absl::Status RunStatus(bool must_be_ready, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::GetStatusRequest request;
  v1::GetStatusResponse status;
  RETURN_IF_ERROR(StatusOf(client->admin().GetStatus(&call, request, &status), call));
  absl::Status ready = status.ready() || !must_be_ready
                           ? absl::OkStatus()
                           : absl::UnavailableError(absl::StrCat("not ready: ", status.state()));
  if (context.json) {
    PrintJson(status);
    return ready;
  }
  std::cout << absl::StrFormat("tesserad %s, pid %d: %s%s\n", status.version(), status.pid(), status.state(), status.ready() ? ", ready" : "");
  std::cout << "state " << status.state_dir() << ", metrics "
            << (status.metrics_address().empty() ? "off" : status.metrics_address()) << "\n";
  if (status.cache().state() != "ok" && !status.cache().state().empty())
    std::cout << "cache: " << status.cache().state() << "\n";
  if (status.warmup().total() > 0 || status.warmup().failures_size() > 0) {
    std::cout << absl::StrFormat("warm-up: %d of %d warmed (%d compiled, %d cached, %d failed), %s\n", status.warmup().done(), status.warmup().total(),
                                 status.warmup().compiled(), status.warmup().cached(), status.warmup().failed(), status.warmup().state());
    for (const std::string& failure : status.warmup().failures()) std::cout << "  " << failure << "\n";
  }
  if (status.jit_during_serving() > 0)
    std::cout << absl::StrFormat("%d kernels were compiled while a launch waited (tessera top names them)\n", status.jit_during_serving());
  for (const auto& device : status.devices()) {
    std::cout << absl::StrFormat("%s: %s, %s, executor pid %d, %d restarts\n", device.name(), device.state(), device.description(), device.executor_pid(), device.restarts());
    for (const std::string& kernel : device.quarantined_kernels()) std::cout << "  quarantined: " << kernel << "\n";
    if (!device.has_gpu()) continue;
    const auto& gpu = device.gpu();
    std::cout << absl::StrFormat("  %s, compute capability %s, CUDA %s, shared by %s, %s of %s free\n", device.uuid(), gpu.compute_capability(),
                                 gpu.driver_version(), gpu.sharing(), Bytes(gpu.memory_free_bytes()), Bytes(gpu.memory_bytes()));
    std::cout << absl::StrFormat("  %d streams, %d modules loaded (%d unloaded for memory), %d handles and %d events of clients open, %d launches running\n",
                                 gpu.streams(), gpu.modules_loaded(), gpu.modules_unloaded(), gpu.handles_open(), gpu.events_open(), gpu.launches_on_device());
  }
  for (const auto& worker : status.workers())
    std::cout << absl::StrFormat("worker pid %d: %s, %d compiles, %d restarts\n", worker.pid(), worker.state(), worker.compiles(), worker.restarts());
  std::cout << absl::StrFormat("%d sessions, %d regions (%s mapped)\n", status.sessions(), status.regions(), Bytes(status.mapped_bytes()));
  std::cout << absl::StrFormat("%d launches (%d failed, %d in flight), %d variants, %d compiles\n", status.launches(), status.launch_failures(),
                               status.launches_in_flight(), status.kernel_variants(), status.compiles());
  return ready;
}

absl::Status RunOps(const std::string& name, bool with_source, CommandContext& context) {
  ASSIGN_OR_RETURN(Client * client, context.Connect());
  grpc::ClientContext call;
  v1::ListOpsRequest request;
  v1::ListOpsResponse list;
  RETURN_IF_ERROR(StatusOf(client->ops().ListOps(&call, request, &list), call));
  bool found = name.empty();
  for (const auto& op : list.ops()) {
    if (!name.empty() && op.name() != name) continue;
    found = true;
    if (context.json) {
      PrintJson(op);
      continue;
    }
    std::cout << op.name() << ": " << op.summary() << "\n";
    for (const auto& tensor : op.tensors()) std::cout << absl::StrFormat("  tensor %-16s %s\n", tensor.name(), tensor.contract());
    for (const auto& attribute : op.attributes()) std::cout << absl::StrFormat("  attribute %-13s %s\n", attribute.name(), attribute.contract());
    if (with_source) std::cout << "\n" << op.source();
  }
  return found ? absl::OkStatus() : absl::NotFoundError(absl::StrCat("no op '", name, "'"));
}

}  // namespace

void AddOperatorCommands(CLI::App& app, CommandContext& context, Action* action) {
  CLI::App* status = app.add_subcommand("status", "what the daemon is doing");
  AddConnectionOptions(*status, context);
  AddPrivateOption(*status, context);
  auto must_be_ready = std::make_shared<bool>(false);
  status->add_flag("--ready", *must_be_ready, "fail unless the daemon is ready, as /readyz does");
  status->callback([=, &context] { *action = [=, &context] { return RunStatus(*must_be_ready, context); }; });

  CLI::App* ops = app.add_subcommand("ops", "the fused operations that ship with Tessera");
  ops->require_subcommand(1);
  CLI::App* ops_list = ops->add_subcommand("ls", "list them with their contracts");
  AddConnectionOptions(*ops_list, context);
  AddPrivateOption(*ops_list, context);
  ops_list->callback([=, &context] { *action = [&context] { return RunOps("", false, context); }; });
  CLI::App* ops_show = ops->add_subcommand("show", "one operation with its source");
  auto op = std::make_shared<std::string>();
  ops_show->add_option("op", *op)->required();
  AddConnectionOptions(*ops_show, context);
  AddPrivateOption(*ops_show, context);
  ops_show->callback([=, &context] { *action = [=, &context] { return RunOps(*op, true, context); }; });
}

}  // namespace tessera::cli
