// A compiler worker for worker_pool_test: does what the kernel's name says.
//   "ok": answers an artifact. "bad": a diagnostic. "die": crashes. "hang": never answers.
//   "garbage": an answer that does not parse. "big": an absurd length. "die_once:PATH": crashes
//   unless PATH exists, and creates it.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "proto/worker/worker.pb.h"

namespace {

bool ReadAll(int fd, void* to, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t got = read(fd, static_cast<char*>(to) + done, size - done);
    if (got <= 0) return false;
    done += got;
  }
  return true;
}

void Send(int fd, const std::string& body, uint32_t length) {
  std::string frame(4, '\0');
  std::memcpy(frame.data(), &length, 4);
  frame += body;
  if (write(fd, frame.data(), frame.size()) < 0) _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  int fd = std::atoi(std::strchr(argv[argc - 1], '=') + 1);
  while (true) {
    uint32_t length = 0;
    if (!ReadAll(fd, &length, 4)) return 0;
    std::string body(length, '\0');
    if (!ReadAll(fd, body.data(), length)) return 0;
    tessera::worker::WorkerRequest request;
    request.ParseFromString(body);
    std::string name = request.compile().kernel();
    tessera::worker::WorkerResponse response;
    if (name.rfind("die_once:", 0) == 0) {
      std::string path = name.substr(9);
      if (access(path.c_str(), F_OK) != 0) {
        close(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
        std::abort();
      }
    }
    if (name == "die") std::abort();
    if (name == "hang") pause();
    if (name == "garbage") {
      Send(fd, "\xff\xff\xff", 3);
      continue;
    }
    if (name == "big") {
      Send(fd, "", 0xffffffffu);
      continue;
    }
    if (name == "bad") {
      response.set_code(3);
      response.set_message("kernel.py:3:5: error: unknown function");
      response.add_diagnostics()->set_line(3);
    } else {
      response.mutable_artifact()->mutable_metadata()->set_kernel(name);
    }
    std::string answer = response.SerializeAsString();
    Send(fd, answer, static_cast<uint32_t>(answer.size()));
  }
}
