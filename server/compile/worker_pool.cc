#include "server/compile/worker_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/status/error_detail.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

using Clock = std::chrono::steady_clock;

// Above any artifact we would keep; a length beyond it means a worker gone mad.
constexpr uint32_t kMaxFrameBytes = 1u << 30;

std::string JobName(const worker::WorkerRequest& request) {
  if (request.has_compile())
    return absl::StrCat("kernel ", request.compile().kernel(), " for ", request.compile().target());
  return absl::StrCat(
      "module ", request.describe().files_size() > 0 ? request.describe().files(0).path() : "");
}

const char* StageName(const worker::WorkerRequest& request) {
  return request.has_compile() ? "compile" : "describe";
}

// kReset: the peer went with our request unread.
enum class Io { kDone, kClosed, kReset, kTimeout, kStopped };

}  // namespace

// Reads or writes `size` bytes before `deadline`; wakes up now and then to see whether the pool
// stops.
template <typename Step>
static Io Transfer(int fd, short event, size_t size, Clock::time_point deadline,
                   const std::function<bool()>& stopped, Step step) {
  size_t done = 0;
  while (done < size) {
    ssize_t moved = step(done, size - done);
    if (moved > 0) {
      done += moved;
      continue;
    }
    if (moved == 0) return Io::kClosed;
    if (errno == EINTR) continue;
    if (errno == ECONNRESET || errno == EPIPE) return Io::kReset;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return Io::kClosed;
    if (stopped()) return Io::kStopped;
    auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Io::kTimeout;
    pollfd ready{fd, event, 0};
    poll(&ready, 1, static_cast<int>(std::min<int64_t>(left + 1, 200)));
  }
  return Io::kDone;
}

WorkerPool::WorkerPool(WorkerPoolOptions options) : options_(std::move(options)) {
  for (int i = 0; i < options_.workers; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->shown.state = "starting";
  }
  for (int i = 0; i < options_.background_workers; ++i) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->background = true;
    slots_.back()->shown.state = "stopped";
  }
}

WorkerPool::~WorkerPool() { Stop(); }

void WorkerPool::Start() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (started_ || stopping_) return;
  started_ = true;
  for (std::unique_ptr<Slot>& slot : slots_)
    slot->thread = std::thread([this, s = slot.get()] { Loop(s); });
}

void WorkerPool::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  wake_background_.notify_all();
  for (std::unique_ptr<Slot>& slot : slots_)
    if (slot->thread.joinable()) slot->thread.join();
  std::deque<Job> unanswered;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    unanswered.swap(jobs_);
    for (Job& job : background_jobs_) unanswered.push_back(std::move(job));
    background_jobs_.clear();
  }
  for (Job& job : unanswered) job.done(absl::UnavailableError("the daemon is stopping"));
}

void WorkerPool::Run(worker::WorkerRequest request, Callback done) {
  Start();
  const bool background = request.background() && options_.background_workers > 0;
  std::deque<Job>& jobs = background ? background_jobs_ : jobs_;
  absl::Status refused;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_)
      refused = absl::UnavailableError("the daemon is stopping");
    else if (jobs.size() >= options_.queue_limit)
      refused = Error(absl::StatusCode::kResourceExhausted, "COMPILE_QUEUE_FULL",
                      absl::StrCat(jobs.size(), " compiles are waiting already"));
    else
      jobs.push_back({std::move(request), std::move(done)});
  }
  if (refused.ok())
    (background ? wake_background_ : wake_).notify_one();
  else
    done(refused);
}

std::vector<BackendWorker> WorkerPool::Workers() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<BackendWorker> workers;
  for (const std::unique_ptr<Slot>& slot : slots_) workers.push_back(slot->shown);
  return workers;
}

size_t WorkerPool::queued() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return jobs_.size();
}

void WorkerPool::Show(Slot* slot, const char* state) {
  std::lock_guard<std::mutex> lock(mutex_);
  slot->shown.state = state;
  slot->shown.pid = std::max<pid_t>(slot->child.pid(), 0);
}

bool WorkerPool::EnsureRunning(Slot* slot, absl::Status* failure) {
  std::string how;
  if (slot->child.running() && !slot->child.Ended(&how)) return true;
  if (!how.empty()) {
    spdlog::warn("an idle compiler worker ended ({}); starting another", how);
    std::lock_guard<std::mutex> lock(mutex_);
    ++slot->shown.restarts;
  }
  absl::StatusOr<ChildProcess> child =
      ChildProcess::Start(slot->background ? options_.background_command : options_.command,
                          "--worker-fd=", options_.memory_bytes);
  if (!child.ok()) {
    *failure = child.status();
    Show(slot, "stopped");
    return false;
  }
  slot->child = *std::move(child);
  fcntl(slot->child.fd(), F_SETFL, fcntl(slot->child.fd(), F_GETFL) | O_NONBLOCK);
  Show(slot, "idle");
  return true;
}

void WorkerPool::Loop(Slot* slot) {
  absl::Status failure;
  if (!slot->background) EnsureRunning(slot, &failure);
  std::deque<Job>& jobs = slot->background ? background_jobs_ : jobs_;
  std::condition_variable& wake = slot->background ? wake_background_ : wake_;
  while (true) {
    Job job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      // A worker that dies while idle is replaced within a second, so that no job pays for its
      // start.
      bool woken = wake.wait_for(lock, std::chrono::seconds(1),
                                 [&] { return stopping_ || !jobs.empty(); });
      if (stopping_) return;
      if (!woken) {
        lock.unlock();
        if (!slot->background || slot->child.running()) EnsureRunning(slot, &failure);
        continue;
      }
      job = std::move(jobs.front());
      jobs.pop_front();
    }
    absl::StatusOr<worker::WorkerResponse> answer = Execute(slot, job.request);
    job.done(std::move(answer));
  }
}

absl::StatusOr<worker::WorkerResponse> WorkerPool::Execute(Slot* slot,
                                                           const worker::WorkerRequest& request) {
  absl::Status failure;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!EnsureRunning(slot, &failure))
      return absl::UnavailableError(absl::StrCat("no compiler worker: ", failure.message()));
    Show(slot, "compiling");
    bool untouched = false;
    absl::StatusOr<worker::WorkerResponse> response = Exchange(slot, request, &untouched);
    if (response.ok()) {
      std::lock_guard<std::mutex> lock(mutex_);
      slot->shown.state = "idle";
      if (request.has_compile()) ++slot->shown.compiles;
    } else {
      slot->child.Kill();
      {
        std::lock_guard<std::mutex> lock(mutex_);
        ++slot->shown.restarts;
      }
      EnsureRunning(slot, &failure);
      // The worker was gone before it could have read the job: nothing was lost but it.
      if (untouched) continue;
      return response;
    }
    if (response->code() == 0) return response;
    return SourceError(static_cast<absl::StatusCode>(response->code()), response->message(),
                       response->diagnostics());
  }
  return absl::UnavailableError("compiler workers end as soon as they start");
}

absl::StatusOr<worker::WorkerResponse> WorkerPool::Exchange(Slot* slot,
                                                            const worker::WorkerRequest& request,
                                                            bool* request_untouched) {
  std::string frame(4, '\0');
  request.AppendToString(&frame);
  uint32_t length = static_cast<uint32_t>(frame.size() - 4);
  std::memcpy(frame.data(), &length, 4);
  const absl::Duration limit = slot->background ? options_.background_job_limit : options_.job_limit;
  Clock::time_point deadline = Clock::now() + absl::ToChronoMilliseconds(limit);
  auto stopped = [this] {
    std::lock_guard<std::mutex> lock(mutex_);
    return stopping_;
  };
  int fd = slot->child.fd();
  auto read_into = [&](char* buffer, size_t size) {
    return Transfer(fd, POLLIN, size, deadline, stopped, [&](size_t done, size_t left) {
      return recv(fd, buffer + done, left, MSG_DONTWAIT);
    });
  };
  Io io = Transfer(fd, POLLOUT, frame.size(), deadline, stopped, [&](size_t done, size_t left) {
    return send(fd, frame.data() + done, left, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
  worker::WorkerResponse response;
  if (io == Io::kDone) io = read_into(reinterpret_cast<char*>(&length), 4);
  if (io == Io::kDone) {
    if (length > kMaxFrameBytes)
      return absl::InternalError(
          absl::StrCat("the compiler worker answered ", length, " bytes for ", JobName(request)));
    std::string body(length, '\0');
    io = read_into(body.data(), length);
    if (io == Io::kDone && !response.ParseFromString(body))
      return absl::InternalError(
          absl::StrCat("the compiler worker's answer for ", JobName(request), " does not parse"));
  }
  switch (io) {
    case Io::kDone:
      return response;
    case Io::kStopped:
      return absl::UnavailableError("the daemon is stopping");
    case Io::kTimeout:
      spdlog::warn("{} exceeded the compile limit; its worker (pid {}) was ended", JobName(request),
                   slot->child.pid());
      return Error(
          absl::StatusCode::kDeadlineExceeded, "COMPILE_TIMEOUT",
          absl::StrCat(JobName(request), ": stage '", StageName(request),
                       "' exceeded the limit of ", absl::FormatDuration(limit)),
          {{"stage", StageName(request)}});
    case Io::kReset:
      *request_untouched = true;
      break;
    case Io::kClosed:
      break;
  }
  // Give the kernel a moment to let us reap it, so that the message can say how it ended.
  std::string how = "no exit status";
  for (int i = 0; i < 50 && !slot->child.Ended(&how); ++i) poll(nullptr, 0, 2);
  spdlog::error("a compiler worker ended ({}) at {}", how, JobName(request));
  return Error(absl::StatusCode::kInternal, "COMPILER_DIED",
               absl::StrCat("the compiler ended (", how, ") in stage '", StageName(request),
                            "' of ", JobName(request), "; other work is unaffected"),
               {{"stage", StageName(request)}});
}

}  // namespace tessera::server
