#include "compiler/driver/worker.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/give_way.h"
#include "compiler/driver/driver.h"
#include "compiler/target/nvptx/assembler.h"
#include "proto/worker/worker.pb.h"

namespace tessera::compiler {
namespace {

// Far above any module; a length beyond it means that the peer is confused, or a memory bomb.
constexpr uint32_t kLargestRequest = 256u << 20;

enum class ReadResult { kRead, kEnd, kFailed };

ReadResult ReadFully(int fd, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    ssize_t n = ::read(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ReadResult::kFailed;
    if (n == 0) return ReadResult::kEnd;
    at += n;
    bytes -= size_t(n);
  }
  return ReadResult::kRead;
}

ReadResult Discard(int fd, uint32_t bytes) {
  char buffer[65536];
  while (bytes > 0) {
    const size_t part = bytes < sizeof buffer ? bytes : sizeof buffer;
    if (ReadResult result = ReadFully(fd, buffer, part); result != ReadResult::kRead) return result;
    bytes -= uint32_t(part);
  }
  return ReadResult::kRead;
}

bool WriteFully(int fd, const char* data, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = ::send(fd, data, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    data += n;
    bytes -= size_t(n);
  }
  return true;
}

bool Answer(int fd, const worker::WorkerResponse& response) {
  std::string frame(4, '\0');
  response.AppendToString(&frame);
  const uint32_t size = uint32_t(frame.size() - 4);
  for (int i = 0; i < 4; ++i) frame[i] = char(size >> (8 * i));
  return WriteFully(fd, frame.data(), frame.size());
}

void SetStatus(const absl::Status& status, worker::WorkerResponse* response) {
  response->set_code(int(status.code()));
  response->set_message(std::string(status.message()));
}

worker::WorkerResponse Handle(Compiler& compiler, const worker::WorkerRequest& request) {
  worker::WorkerResponse response;
  response.set_id(request.id());
  std::vector<storage::Diagnostic> diagnostics;
  switch (request.work_case()) {
    case worker::WorkerRequest::kDescribe: {
      auto description = compiler.Describe({request.describe().files().begin(), request.describe().files().end()}, &diagnostics);
      SetStatus(description.status(), &response);
      if (description.ok()) *response.mutable_description() = *std::move(description);
      break;
    }
    case worker::WorkerRequest::kCompile: {
      auto artifact = compiler.Compile(request.compile(), &diagnostics);
      SetStatus(artifact.status(), &response);
      if (artifact.ok()) *response.mutable_artifact() = *std::move(artifact);
      break;
    }
    case worker::WorkerRequest::kPrune: {
      const worker::PruneConfigs& prune = request.prune();
      auto kept = compiler.PruneConfigs({prune.files().begin(), prune.files().end()}, prune.kernel(), {prune.values().begin(), prune.values().end()},
                                        response.mutable_note());
      SetStatus(kept.status(), &response);
      if (kept.ok())
        for (size_t index : *kept) response.add_kept(uint32_t(index));
      break;
    }
    case worker::WorkerRequest::WORK_NOT_SET:
      SetStatus(absl::InvalidArgumentError("the request asks for nothing"), &response);
  }
  for (storage::Diagnostic& diagnostic : diagnostics) *response.add_diagnostics() = std::move(diagnostic);
  return response;
}

worker::WorkerResponse Refuse(const std::string& why) {
  worker::WorkerResponse response;
  SetStatus(absl::InvalidArgumentError(why), &response);
  return response;
}

}  // namespace

int RunWorker(int socket_fd) {
  // Where there is a GPU, its assembler is loaded before it is needed.
  std::thread warm_up;
  if (access("/dev/nvidiactl", F_OK) == 0) warm_up = std::thread(WarmUpAssembler);
  absl::Cleanup join = [&] {
    if (warm_up.joinable()) warm_up.join();
  };
  Compiler compiler;
  std::string bytes;
  while (true) {
    unsigned char header[4];
    switch (ReadFully(socket_fd, header, sizeof header)) {
      case ReadResult::kRead: break;
      case ReadResult::kEnd: return 0;
      case ReadResult::kFailed:
        std::fprintf(stderr, "compiler worker: reading a request: %s\n", std::strerror(errno));
        return 1;
    }
    const uint32_t size = uint32_t(header[0]) | uint32_t(header[1]) << 8 | uint32_t(header[2]) << 16 | uint32_t(header[3]) << 24;
    worker::WorkerResponse response;
    if (size > kLargestRequest) {
      if (Discard(socket_fd, size) != ReadResult::kRead) return 0;
      response = Refuse(absl::StrCat("a request of ", size, " bytes is larger than the limit of ", kLargestRequest));
    } else {
      bytes.resize(size);
      if (ReadFully(socket_fd, bytes.data(), size) != ReadResult::kRead) return 0;  // the daemon is gone
      worker::WorkerRequest request;
      GiveWay give_way;
      const std::clock_t begin = std::clock();
      response = request.ParseFromString(bytes) ? Handle(compiler, request) : Refuse("the request does not parse");
      response.set_cpu_seconds(double(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    if (!Answer(socket_fd, response)) {
      std::fprintf(stderr, "compiler worker: sending an answer: %s\n", std::strerror(errno));
      return 1;
    }
  }
}

}  // namespace tessera::compiler
