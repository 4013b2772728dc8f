#include "client/cpp/client.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "grpcpp/create_channel.h"

namespace tessera {
namespace {

// The largest answer that is accepted: compiled stages and cache listings can be long.
constexpr int kMaxMessageBytes = 256 << 20;

absl::Status ErrnoStatus(absl::string_view attempt) {
  return absl::ErrnoToStatus(errno, attempt);
}

}  // namespace

std::string DefaultAddress() {
  if (const char* address = std::getenv("TESSERA_ADDRESS"); address && *address) return address;
  const char* system_socket = "/run/tessera/tesserad.sock";
  if (access(system_socket, F_OK) == 0) return absl::StrCat("unix:", system_socket);
  if (const char* dir = std::getenv("XDG_RUNTIME_DIR"); dir && *dir) return absl::StrCat("unix:", dir, "/tessera/tesserad.sock");
  return absl::StrCat("unix:", system_socket);
}

absl::Status StatusOf(const grpc::Status& status, const grpc::ClientContext& context, v1::ErrorDetail* detail) {
  if (status.ok()) return absl::OkStatus();
  if (detail != nullptr) {
    const auto& trailers = context.GetServerTrailingMetadata();
    auto found = trailers.find("tessera-error-bin");
    if (found != trailers.end()) detail->ParseFromArray(found->second.data(), found->second.size());
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// The socket beside gRPC's that carries descriptors; its EOF tells the daemon that we are gone.
struct Client::DescriptorSocket {
  int fd = -1;
  std::mutex mutex;  // one exchange at a time

  ~DescriptorSocket() {
    if (fd >= 0) close(fd);
  }

  // `received`: gets the descriptor that comes with the answer.
  absl::StatusOr<v1::AttachResponse> Exchange(const v1::AttachRequest& request, int descriptor = -1, int* received = nullptr) {
    std::lock_guard<std::mutex> lock(mutex);
    std::string packet = request.SerializeAsString();
    char control[CMSG_SPACE(sizeof(int))] = {};
    iovec part{packet.data(), packet.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
    }
    if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0) return ErrnoStatus("sending to the descriptor socket");
    char answer[4096];
    part = {answer, sizeof(answer)};
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got <= 0) return absl::UnavailableError("the daemon closed the descriptor socket");
    if (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && header->cmsg_type == SCM_RIGHTS) {
      int attached = -1;
      std::memcpy(&attached, CMSG_DATA(header), sizeof(int));
      if (received != nullptr) *received = attached;
      else close(attached);
    }
    v1::AttachResponse response;
    if (!response.ParseFromArray(answer, got)) return absl::InternalError("unreadable answer on the descriptor socket");
    if (response.code() != 0)
      return absl::Status(static_cast<absl::StatusCode>(response.code()), response.message());
    return response;
  }
};

struct Client::OpenStream {
  std::mutex mutex;  // one launch at a time
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::LaunchRequest, v1::LaunchResponse>> calls;

  ~OpenStream() { Close(); }
  void Close() {
    if (calls == nullptr) return;
    context->TryCancel();
    calls->Finish().ok();  // cancelled, or the daemon is gone
    calls.reset();
    context.reset();
  }
};

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(std::string address, std::string client_name) {
  if (address.empty()) address = DefaultAddress();
  std::unique_ptr<Client> client(new Client);
  client->stream_ = std::make_unique<OpenStream>();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // One connection per client: channels with equal arguments would share one, and its death.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  client->channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  client->modules_ = v1::ModuleService::NewStub(client->channel_);
  client->memory_ = v1::MemoryService::NewStub(client->channel_);
  client->launches_ = v1::LaunchService::NewStub(client->channel_);
  client->ops_ = v1::OpsService::NewStub(client->channel_);
  client->tuning_ = v1::TuningService::NewStub(client->channel_);
  client->warmup_ = v1::WarmupService::NewStub(client->channel_);
  client->cache_ = v1::CacheService::NewStub(client->channel_);
  client->admin_ = v1::AdminService::NewStub(client->channel_);
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) {
    RETURN_IF_ERROR(client->Attach(absl::StrCat(path, ".fd"), client_name));
  } else {
    RETURN_IF_ERROR(client->OpenSession(client_name));
  }
  return client;
}

absl::Status Client::Attach(const std::string& socket_path, const std::string& client_name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof(address.sun_path))
    return absl::InvalidArgumentError(absl::StrCat("socket path is too long: ", socket_path));
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  descriptors_ = std::make_unique<DescriptorSocket>();
  descriptors_->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (descriptors_->fd < 0) return ErrnoStatus("creating a socket");
  if (connect(descriptors_->fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EACCES)
      return absl::PermissionDeniedError(
          absl::StrCat(socket_path, " belongs to a group that this process is not in: after joining it, log in again or use newgrp"));
    return absl::UnavailableError(absl::StrCat("no daemon at ", socket_path, ": ", std::strerror(errno),
                                               "; start one with tesserad, or pass --private"));
  }
  v1::AttachRequest hello;
  hello.mutable_hello()->set_client_name(client_name);
  ASSIGN_OR_RETURN(v1::AttachResponse response, descriptors_->Exchange(hello));
  session_ = response.session();
  return absl::OkStatus();
}

absl::Status Client::OpenSession(const std::string& client_name) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1::OpenSessionRequest request;
  v1::OpenSessionResponse response;
  request.set_client_name(client_name);
  RETURN_IF_ERROR(StatusOf(memory_->OpenSession(&context, request, &response), context));
  session_ = response.session();
  return absl::OkStatus();
}

Client::~Client() {
  stream_.reset();
  if (session_.empty() || descriptors_ != nullptr) return;  // the socket's EOF ends the session
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  v1::CloseSessionRequest request;
  v1::CloseSessionResponse response;
  request.set_session(session_);
  grpc::Status ignored = memory_->CloseSession(&context, request, &response);
  (void)ignored;  // the lease ends the session anyway
}

absl::StatusOr<v1::RegisterModuleResponse> Client::RegisterModule(
    const std::vector<std::pair<std::string, std::string>>& path_and_text) {
  grpc::ClientContext context;
  v1::RegisterModuleRequest request;
  v1::RegisterModuleResponse response;
  request.set_session(session_);
  for (const auto& [path, text] : path_and_text) {
    v1::SourceFile* file = request.add_files();
    file->set_path(path);
    file->set_text(text);
  }
  RETURN_IF_ERROR(StatusOf(modules_->RegisterModule(&context, request, &response), context));
  return response;
}

absl::StatusOr<uint64_t> Client::ImportRegion(v1::ImportMemoryRequest request) {
  grpc::ClientContext context;
  v1::ImportMemoryResponse response;
  request.set_session(session_);
  RETURN_IF_ERROR(StatusOf(memory_->ImportMemory(&context, request, &response), context));
  return response.region();
}

absl::StatusOr<uint64_t> Client::ImportMemfd(int fd, uint64_t size, bool read_only) {
  if (descriptors_ == nullptr) return absl::FailedPreconditionError("descriptors travel over Unix sockets only");
  v1::AttachRequest offer;
  offer.mutable_offer();
  ASSIGN_OR_RETURN(v1::AttachResponse response, descriptors_->Exchange(offer, fd));
  v1::ImportMemoryRequest request;
  request.set_memfd(response.ticket());
  request.set_size(size);
  request.set_read_only(read_only);
  return ImportRegion(std::move(request));
}

absl::StatusOr<uint64_t> Client::ImportPosixShm(absl::string_view name, uint64_t size) {
  v1::ImportMemoryRequest request;
  request.set_posix_shm(std::string(name));
  request.set_size(size);
  return ImportRegion(std::move(request));
}

namespace {
v1::ImportMemoryRequest GpuImport(const Client::GpuMemory& memory) {
  v1::ImportMemoryRequest request;
  request.set_device(memory.device);
  request.set_device_uuid(memory.device_uuid);
  request.set_offset(memory.offset);
  request.set_size(memory.size);
  return request;
}
}  // namespace

absl::StatusOr<uint64_t> Client::ImportCudaIpc(absl::string_view handle, const GpuMemory& memory) {
  v1::ImportMemoryRequest request = GpuImport(memory);
  request.set_cuda_ipc(std::string(handle));
  return ImportRegion(std::move(request));
}

absl::StatusOr<uint64_t> Client::ImportVmm(const std::vector<std::pair<int, uint64_t>>& chunks,
                                           const GpuMemory& memory) {
  if (descriptors_ == nullptr) return absl::FailedPreconditionError("descriptors travel over Unix sockets only");
  v1::ImportMemoryRequest request = GpuImport(memory);
  for (const auto& [fd, bytes] : chunks) {
    v1::AttachRequest offer;
    offer.mutable_offer();
    ASSIGN_OR_RETURN(v1::AttachResponse response, descriptors_->Exchange(offer, fd));
    v1::VmmChunks::Chunk* chunk = request.mutable_vmm_chunks()->add_chunks();
    chunk->set_ticket(response.ticket());
    chunk->set_size(bytes);
  }
  return ImportRegion(std::move(request));
}

absl::StatusOr<v1::AllocateMemoryResponse> Client::AllocateOn(const std::string& device, uint64_t bytes) {
  grpc::ClientContext context;
  v1::AllocateMemoryRequest request;
  v1::AllocateMemoryResponse response;
  request.set_session(session_);
  request.set_device(device);
  request.set_size(bytes);
  RETURN_IF_ERROR(StatusOf(memory_->AllocateMemory(&context, request, &response), context));
  return response;
}

absl::StatusOr<int> Client::FetchDescriptor(uint64_t region) {
  if (descriptors_ == nullptr) return absl::FailedPreconditionError("descriptors travel over Unix sockets only");
  v1::AttachRequest fetch;
  fetch.mutable_fetch()->set_region(region);
  int fd = -1;
  RETURN_IF_ERROR(descriptors_->Exchange(fetch, -1, &fd).status());
  if (fd < 0) return absl::InternalError("the daemon answered without a descriptor");
  return fd;
}

absl::Status Client::Copy(uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes) {
  grpc::ClientContext context;
  v1::CopyMemoryRequest request;
  v1::CopyMemoryResponse response;
  request.set_session(session_);
  request.set_from(from);
  request.set_from_offset(from_offset);
  request.set_to(to);
  request.set_to_offset(to_offset);
  request.set_size(bytes);
  return StatusOf(memory_->CopyMemory(&context, request, &response), context);
}

absl::StatusOr<uint64_t> Client::ImportEvent(absl::string_view handle, const std::string& device,
                                             const std::string& device_uuid) {
  grpc::ClientContext context;
  v1::ImportEventRequest request;
  v1::ImportEventResponse response;
  request.set_session(session_);
  request.set_device(device);
  request.set_cuda_ipc_event(std::string(handle));
  request.set_device_uuid(device_uuid);
  RETURN_IF_ERROR(StatusOf(memory_->ImportEvent(&context, request, &response), context));
  return response.event();
}

absl::Status Client::ReleaseEvent(uint64_t event) {
  grpc::ClientContext context;
  v1::ReleaseEventRequest request;
  v1::ReleaseEventResponse response;
  request.set_session(session_);
  request.set_event(event);
  return StatusOf(memory_->ReleaseEvent(&context, request, &response), context);
}

absl::StatusOr<v1::SynchronizeResponse> Client::Synchronize() {
  grpc::ClientContext context;
  v1::SynchronizeRequest request;
  v1::SynchronizeResponse response;
  request.set_session(session_);
  RETURN_IF_ERROR(StatusOf(launches_->Synchronize(&context, request, &response), context));
  return response;
}

absl::StatusOr<std::unique_ptr<SharedBuffer>> Client::Allocate(uint64_t bytes) {
  if (bytes == 0) bytes = 1;
  int fd = memfd_create("tessera", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return ErrnoStatus("creating shared memory");
  std::unique_ptr<SharedBuffer> buffer(new SharedBuffer);
  buffer->size_ = bytes;
  void* data = MAP_FAILED;
  if (ftruncate(fd, bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    absl::Status status = ErrnoStatus(absl::StrCat("mapping ", bytes, " bytes of shared memory"));
    close(fd);
    return status;
  }
  buffer->data_ = data;
  absl::StatusOr<uint64_t> region = ImportMemfd(fd, bytes);
  close(fd);
  if (!region.ok()) return region.status();
  buffer->region_ = *region;
  buffer->client_ = this;
  return buffer;
}

SharedBuffer::~SharedBuffer() {
  if (client_ != nullptr) client_->Release(region_).IgnoreError();  // the session's end releases it too
  if (data_ != nullptr) munmap(data_, size_);
}

absl::Status Client::Release(uint64_t region) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1::ReleaseMemoryRequest request;
  v1::ReleaseMemoryResponse response;
  request.set_session(session_);
  request.set_region(region);
  return StatusOf(memory_->ReleaseMemory(&context, request, &response), context);
}

absl::StatusOr<v1::LaunchResponse> Client::Launch(v1::LaunchRequest request, absl::Duration timeout) {
  grpc::ClientContext context;
  if (timeout != absl::InfiniteDuration()) context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  request.set_session(session_);
  v1::LaunchResponse response;
  RETURN_IF_ERROR(StatusOf(launches_->Launch(&context, request, &response), context));
  return response;
}

absl::Status Client::SetGuardPolicy(v1::GuardPolicy::Mode mode, uint32_t n) {
  grpc::ClientContext context;
  v1::ConfigureSessionRequest request;
  v1::ConfigureSessionResponse response;
  request.set_session(session_);
  request.mutable_guard()->set_mode(mode);
  request.mutable_guard()->set_n(n);
  return StatusOf(memory_->ConfigureSession(&context, request, &response), context);
}

absl::StatusOr<v1::LaunchResponse> Client::LaunchOnStream(v1::LaunchRequest request) {
  request.set_session(session_);
  std::lock_guard<std::mutex> lock(stream_->mutex);
  if (stream_->calls == nullptr) {
    stream_->context = std::make_unique<grpc::ClientContext>();
    stream_->calls = launches_->LaunchStream(stream_->context.get());
  }
  v1::LaunchResponse response;
  if (!stream_->calls->Write(request) || !stream_->calls->Read(&response)) {
    stream_->Close();
    return absl::UnavailableError("the daemon closed the stream of launches");
  }
  if (response.code() != 0) return absl::Status(static_cast<absl::StatusCode>(response.code()), response.message());
  return response;
}

absl::StatusOr<v1::LaunchResponse> Client::LaunchOp(v1::LaunchOpRequest request, absl::Duration timeout) {
  grpc::ClientContext context;
  if (timeout != absl::InfiniteDuration()) context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  request.set_session(session_);
  v1::LaunchResponse response;
  RETURN_IF_ERROR(StatusOf(ops_->LaunchOp(&context, request, &response), context));
  return response;
}

namespace {
v1::Argument Named(absl::string_view name) {
  v1::Argument argument;
  argument.set_name(std::string(name));
  return argument;
}
}  // namespace

v1::Argument TensorArgument(absl::string_view name, const SharedBuffer& buffer, DType dtype,
                            const std::vector<int64_t>& shape, uint64_t byte_offset) {
  return RegionArgument(name, buffer.region(), dtype, shape, byte_offset);
}
v1::Argument RegionArgument(absl::string_view name, uint64_t region, DType dtype, const std::vector<int64_t>& shape,
                            uint64_t byte_offset) {
  v1::Argument argument = Named(name);
  v1::TensorRef* tensor = argument.mutable_tensor();
  tensor->set_region(region);
  tensor->set_byte_offset(byte_offset);
  tensor->set_dtype(std::string(ShortName(dtype)));
  for (int64_t extent : shape) tensor->add_shape(extent);
  tensor->set_is_scalar(shape.empty());
  return argument;
}

v1::Argument IntArgument(absl::string_view name, int64_t value) {
  v1::Argument argument = Named(name);
  argument.set_integer(value);
  return argument;
}
v1::Argument FloatArgument(absl::string_view name, double value) {
  v1::Argument argument = Named(name);
  argument.set_real(value);
  return argument;
}
v1::Argument NoneArgument(absl::string_view name) {
  v1::Argument argument = Named(name);
  argument.mutable_constant()->mutable_none();
  return argument;
}
v1::Argument ConstexprArgument(absl::string_view name, v1::Constant value) {
  v1::Argument argument = Named(name);
  *argument.mutable_constant() = std::move(value);
  return argument;
}
v1::Constant IntConstant(int64_t value) {
  v1::Constant constant;
  constant.set_integer(value);
  return constant;
}
v1::Constant BoolConstant(bool value) {
  v1::Constant constant;
  constant.set_boolean(value);
  return constant;
}
v1::Constant TextConstant(absl::string_view value) {
  v1::Constant constant;
  constant.set_text(std::string(value));
  return constant;
}

}  // namespace tessera
