// Tessera's C++ client: modules, shared memory and launches over a Unix socket.
//
//   auto client = tessera::Client::Connect();                          // $TESSERA_ADDRESS or the default socket
//   auto module = (*client)->RegisterModule({{"add.py", text}});
//   auto x = (*client)->Allocate(n * 4);                               // memory that daemon and client share
//   v1::LaunchRequest launch = ...;                                    // see launch.proto and the helpers below
//   auto result = (*client)->Launch(launch);
//
// Thread-safe. Memory and session end when the Client is destroyed or the process dies.
#ifndef TESSERA_CLIENT_CPP_CLIENT_H_
#define TESSERA_CLIENT_CPP_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/dtype.h"
#include "proto/tessera/v1/admin.grpc.pb.h"
#include "proto/tessera/v1/cache.grpc.pb.h"
#include "proto/tessera/v1/launch.grpc.pb.h"
#include "proto/tessera/v1/memory.grpc.pb.h"
#include "proto/tessera/v1/modules.grpc.pb.h"
#include "proto/tessera/v1/ops.grpc.pb.h"
#include "proto/tessera/v1/tuning.grpc.pb.h"
#include "proto/tessera/v1/warmup.grpc.pb.h"

namespace tessera {

// Where clients connect: $TESSERA_ADDRESS, else unix: and the daemon's default socket.
std::string DefaultAddress();

// Memory mapped in this process and registered with the daemon.
class SharedBuffer {
 public:
  ~SharedBuffer();
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;

  void* data() const { return data_; }
  template <typename T>
  T* as() const { return static_cast<T*>(data_); }
  uint64_t size() const { return size_; }      // bytes
  uint64_t region() const { return region_; }  // for TensorRef

 private:
  friend class Client;
  SharedBuffer() = default;
  class Client* client_ = nullptr;
  void* data_ = nullptr;
  uint64_t size_ = 0, region_ = 0;
};

class Client {
 public:
  // `address`: "unix:/path" or "host:port"; empty: DefaultAddress(). UNAVAILABLE: nobody listens there.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(std::string address = "", std::string client_name = "");
  ~Client();

  // Parses and stores source text; the first file is the main one.
  absl::StatusOr<v1::RegisterModuleResponse> RegisterModule(
      const std::vector<std::pair<std::string, std::string>>& path_and_text);

  // Creates sealed shared memory of `bytes` (at least 1), maps it here and registers it. Zero-filled.
  // Must not outlive the client.
  absl::StatusOr<std::unique_ptr<SharedBuffer>> Allocate(uint64_t bytes);
  // Registers a memfd of the caller's; the descriptor may be closed afterwards. Returns the region.
  absl::StatusOr<uint64_t> ImportMemfd(int fd, uint64_t size, bool read_only = false);
  // Registers POSIX shared memory by its name ("/name").
  absl::StatusOr<uint64_t> ImportPosixShm(absl::string_view name, uint64_t size = 0);
  absl::Status Release(uint64_t region);

  // GPU memory. `device`: its name or UUID; a handle of another GPU is refused with both UUIDs.
  struct GpuMemory {
    std::string device, device_uuid;  // `device_uuid` may be empty
    uint64_t offset = 0;  // where the region begins in the allocation: a multiple of 256
    uint64_t size = 0;    // bytes; 0: to the end
  };
  // `handle`: a cudaIpcMemHandle_t (64 bytes). Import an allocation once and place tensors by byte_offset.
  absl::StatusOr<uint64_t> ImportCudaIpc(absl::string_view handle, const GpuMemory& memory);
  // `chunks`: VMM exports and their sizes, one behind the other; the descriptors may be closed afterwards.
  absl::StatusOr<uint64_t> ImportVmm(const std::vector<std::pair<int, uint64_t>>& chunks, const GpuMemory& memory);
  // Memory that the daemon makes on a GPU, zeroed. It survives a restart of the device's executor.
  absl::StatusOr<v1::AllocateMemoryResponse> AllocateOn(const std::string& device, uint64_t bytes);
  // A descriptor of memory that the daemon made; the caller closes it. Of GPU memory: a VMM export of
  // AllocateMemoryResponse.handle_bytes bytes.
  absl::StatusOr<int> FetchDescriptor(uint64_t region);
  // Copies between regions, on the GPU's copy engine if one of them is GPU memory; returns when the bytes are there.
  absl::Status Copy(uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes);
  // `handle`: a cudaIpcEventHandle_t (64 bytes). For wait_events and signal_events of launches.
  absl::StatusOr<uint64_t> ImportEvent(absl::string_view handle, const std::string& device,
                                       const std::string& device_uuid = "");
  absl::Status ReleaseEvent(uint64_t event);
  // Which of this session's launches on GPUs run guarded; `n` is of EVERY_NTH.
  absl::Status SetGuardPolicy(v1::GuardPolicy::Mode mode, uint32_t n = 0);
  // Waits for launches that were answered as enqueued, and tells which of them failed.
  absl::StatusOr<v1::SynchronizeResponse> Synchronize();

  // Launches and waits. The session is filled in.
  absl::StatusOr<v1::LaunchResponse> Launch(v1::LaunchRequest request,
                                            absl::Duration timeout = absl::InfiniteDuration());
  // The same over a stream of requests that stays open: where a call of its own would cost more than the launch. One at a
  // time; others wait. UNAVAILABLE: the daemon is gone; the next call opens a new stream.
  absl::StatusOr<v1::LaunchResponse> LaunchOnStream(v1::LaunchRequest request);
  absl::StatusOr<v1::LaunchResponse> LaunchOp(v1::LaunchOpRequest request,
                                              absl::Duration timeout = absl::InfiniteDuration());

  const std::string& session() const { return session_; }

  // For calls that this class does not wrap.
  v1::ModuleService::Stub& modules() { return *modules_; }
  v1::MemoryService::Stub& memory() { return *memory_; }
  v1::LaunchService::Stub& launches() { return *launches_; }
  v1::OpsService::Stub& ops() { return *ops_; }
  v1::TuningService::Stub& tuning() { return *tuning_; }
  v1::WarmupService::Stub& warmup() { return *warmup_; }
  v1::CacheService::Stub& cache() { return *cache_; }
  v1::AdminService::Stub& admin() { return *admin_; }

 private:
  friend class SharedBuffer;
  Client() = default;
  absl::Status Attach(const std::string& socket_path, const std::string& client_name);
  absl::Status OpenSession(const std::string& client_name);
  absl::StatusOr<uint64_t> ImportRegion(v1::ImportMemoryRequest request);

  struct DescriptorSocket;
  struct OpenStream;
  std::unique_ptr<OpenStream> stream_;
  std::unique_ptr<DescriptorSocket> descriptors_;  // null over TCP
  std::shared_ptr<grpc::Channel> channel_;
  std::string session_;
  std::unique_ptr<v1::ModuleService::Stub> modules_;
  std::unique_ptr<v1::MemoryService::Stub> memory_;
  std::unique_ptr<v1::LaunchService::Stub> launches_;
  std::unique_ptr<v1::OpsService::Stub> ops_;
  std::unique_ptr<v1::TuningService::Stub> tuning_;
  std::unique_ptr<v1::WarmupService::Stub> warmup_;
  std::unique_ptr<v1::CacheService::Stub> cache_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
};

// The status of a finished call. Compiler diagnostics and other details travel in a trailer; `detail` (optional)
// receives them.
absl::Status StatusOf(const grpc::Status& status, const grpc::ClientContext& context,
                      v1::ErrorDetail* detail = nullptr);

//===-- arguments of a launch -----------------------------------------------------------------===//

v1::Argument TensorArgument(absl::string_view name, const SharedBuffer& buffer, DType dtype,
                            const std::vector<int64_t>& shape, uint64_t byte_offset = 0);
// In a region that has no SharedBuffer: GPU memory.
v1::Argument RegionArgument(absl::string_view name, uint64_t region, DType dtype, const std::vector<int64_t>& shape,
                            uint64_t byte_offset = 0);
v1::Argument IntArgument(absl::string_view name, int64_t value);
v1::Argument FloatArgument(absl::string_view name, double value);
v1::Argument NoneArgument(absl::string_view name);
v1::Argument ConstexprArgument(absl::string_view name, v1::Constant value);
v1::Constant IntConstant(int64_t value);
v1::Constant BoolConstant(bool value);
v1::Constant TextConstant(absl::string_view value);

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_CLIENT_H_
