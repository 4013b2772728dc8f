#include "runtime/executor/executor_client.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/worker/worker.pb.h"
#include "runtime/executor/executor_incarnation.h"
#include "runtime/executor/ring_records.h"
#include "runtime/memory/system_status.h"
#include "runtime/memory/unique_fd.h"
#include "runtime/ring/futex.h"
#include "runtime/ring/ring.h"

namespace tessera::runtime {
namespace {

constexpr uint64_t kPollNs =
    5000;  // before the completion thread sleeps; longer polls hurt where cores are shared
constexpr size_t kMaxBatch = 64;  // completions taken before their callbacks run
constexpr size_t kMaxBacklog = 1 << 16;
constexpr absl::Duration kStartLimit =
    absl::Seconds(10);  // from exec to the first answer, on a loaded machine
constexpr absl::Duration kCallLimit =
    absl::Seconds(60);  // linking the largest kernels takes a few seconds
constexpr size_t kRestoreWindow =
    32;  // requests unanswered while a new executor gets regions and kernels back
constexpr uint64_t kAttachId = 0;  // of requests that no caller waits for; calls count from 1
constexpr uint64_t kRestoreId = ~uint64_t{0};
constexpr absl::Duration kLongestBackoff = absl::Seconds(5);

absl::Status Barred(uint64_t kernel) {
  return absl::FailedPreconditionError(
      absl::StrCat("kernel ", kernel, " crashed an executor and is not launched again"));
}

class SupervisedExecutor final : public ExecutorClient {
 public:
  explicit SupervisedExecutor(ExecutorOptions options) : options_(std::move(options)) {}
  ~SupervisedExecutor() override;

  absl::Status Begin();

  absl::Status MapRegion(uint64_t region, int fd, uint64_t offset, uint64_t size,
                         bool read_only) override;
  void UnmapRegion(uint64_t region) override;
  absl::Status LoadKernel(uint64_t kernel, const storage::Artifact& artifact) override;
  void UnloadKernel(uint64_t kernel) override;
  void Submit(const LaunchCommand& command, absl::Duration spin, DoneCallback done) override;

  pid_t pid() const override { return pid_.load(); }
  uint32_t restarts() const override { return restarts_.load(); }
  uint32_t in_flight() const override { return in_flight_.load(); }
  std::vector<uint64_t> quarantined() const override;

 private:
  // One executor process and what belongs to it alone.
  struct Life {
    std::unique_ptr<ExecutorIncarnation> process;
    std::thread completion_thread;
    std::mutex reader_mutex;  // who reads the completion ring
    std::vector<RingCompletion>
        carried;           // by reader_mutex: read by a polling Submit, but not its own
    std::string record;    // by reader_mutex: for its memory
    bool damaged = false;  // by reader_mutex: the ring is not read any more
    std::atomic<bool> ended{false};
    absl::Status reason;  // by mutex_; set before `ended`
  };
  struct PendingLaunch {
    uint64_t kernel = 0;
    uint64_t submit_ns = 0;
    bool sent = false;  // in the executor's ring; else in the backlog
    DoneCallback done;
  };
  struct QueuedCommand {
    CommandKind kind;
    uint64_t id;  // of the launch, region or kernel
    std::string record;
  };
  // What a restarted executor is told again.
  struct KeptRegion {
    UniqueFd fd;
    worker::ExecutorRequest request;
  };
  struct KeptKernel {
    worker::ExecutorRequest request;
  };
  // A request whose caller waits.
  struct Call {
    uint64_t kernel = 0;  // of LoadKernel
    uint64_t start_ns = 0;
    std::function<void()> on_success;  // runs under mutex_, before the executor can end
    bool answered = false;
    bool repeat = false;  // the executor died of something else
    absl::Status status;
  };
  using Callbacks = std::vector<std::pair<DoneCallback, LaunchResult>>;

  // Supervisor thread.
  void Supervise();
  absl::StatusOr<std::shared_ptr<Life>> StartLife();
  absl::Status Restore(Life* life);
  absl::Status AwaitAnswers(Life* life, size_t most_left, size_t* unanswered);
  void Watch(Life* life);
  void EndLife(const std::shared_ptr<Life>& life);
  std::string NoteCulprit(const ExecutorDeath& death);
  void AnswerCalls(const std::vector<worker::ExecutorResponse>& responses);
  void CheckProgress(Life* life);
  void BackOff(int failures);
  void FailLaunches(const absl::Status& reason,
                    const std::function<bool(const PendingLaunch&)>& chosen);

  // Completions.
  void ReadCompletions(Life* life);
  bool TakeOne(Life* life, RingCompletion* completion);
  void PollForOwn(Life* life, uint64_t id, absl::Duration spin);
  void Deliver(std::vector<RingCompletion> completions);
  void Run(Callbacks callbacks);

  absl::Status CallExecutor(worker::ExecutorRequest request, int fd, uint64_t kernel,
                            std::function<void()> on_success);

  // Under mutex_.
  absl::Status CheckAdmission(uint64_t kernel, size_t record_bytes) const;
  bool EnqueueLocked(QueuedCommand command);
  bool WriteLocked(const QueuedCommand& command);
  bool FlushBacklogLocked();
  void CountLaunchesLocked() { in_flight_.store(static_cast<uint32_t>(launches_.size())); }

  const ExecutorOptions options_;
  UniqueFd wake_;  // eventfd: the supervisor has something to look at
  std::thread supervisor_;

  std::atomic<pid_t> pid_{0};
  std::atomic<uint32_t> restarts_{0};
  std::atomic<uint32_t> in_flight_{0};
  std::atomic<uint64_t> next_launch_{1};

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // life_, stopping_, begun_, a call's answer
  bool stopping_ = false;
  bool begun_ = false;  // the first start was tried
  absl::Status start_status_;
  std::shared_ptr<Life> life_;  // null while there is none that takes launches
  std::unordered_map<uint64_t, PendingLaunch> launches_;
  std::deque<QueuedCommand> backlog_;
  size_t sent_ = 0;           // launches in the executor's hands
  uint64_t progress_ns_ = 0;  // when one of them last ended, or the first was sent
  std::map<uint64_t, std::shared_ptr<KeptRegion>> regions_;
  std::map<uint64_t, std::shared_ptr<KeptKernel>> kernels_;
  std::set<uint64_t> quarantined_;
  uint64_t next_call_ = 1;
  std::map<uint64_t, Call*> calls_;
};

SupervisedExecutor::~SupervisedExecutor() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (wake_.open()) eventfd_write(wake_.get(), 1);
  if (supervisor_.joinable()) supervisor_.join();
}

absl::Status SupervisedExecutor::Begin() {
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.open()) return SystemStatus(errno, "making an eventfd");
  supervisor_ = std::thread([this] { Supervise(); });
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return begun_; });
  return start_status_;
}

// ---- Supervision: one thread starts every executor (children die with the thread that made them)
// and buries it.

void SupervisedExecutor::Supervise() {
  pthread_setname_np(pthread_self(), "exec-supervise");
  int failures = 0;
  for (bool first = true;; first = false) {
    absl::StatusOr<std::shared_ptr<Life>> life = StartLife();
    failures = life.ok() ? 0 : failures + 1;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      start_status_ = life.status();
      begun_ = true;
    }
    changed_.notify_all();
    if (life.ok()) {
      Watch(life->get());
      EndLife(*life);
    } else if (first) {
      return;
    } else {
      FailLaunches(life.status(), [](const PendingLaunch&) { return true; });
      BackOff(failures);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) break;
    ++restarts_;
  }
  FailLaunches(absl::UnavailableError("the executor was stopped"),
               [](const PendingLaunch&) { return true; });
}

absl::StatusOr<std::shared_ptr<SupervisedExecutor::Life>> SupervisedExecutor::StartLife() {
  auto life = std::make_shared<Life>();
  ASSIGN_OR_RETURN(life->process, ExecutorIncarnation::Spawn(options_));
  pid_.store(life->process->pid());
  const absl::Status restored = Restore(life.get());
  if (!restored.ok()) {
    const ExecutorDeath death = life->process->Reap();
    std::unique_lock<std::mutex> lock(mutex_);
    const absl::Status reason =
        absl::UnavailableError(absl::StrCat(death.text, NoteCulprit(death), ", while it started"));
    if (stopping_) return reason;
    lock.unlock();
    if (options_.on_death) options_.on_death(reason);
    return reason;
  }
  life->completion_thread = std::thread([this, raw = life.get()] { ReadCompletions(raw); });
  {
    std::lock_guard<std::mutex> lock(mutex_);
    life_ = life;
    progress_ns_ = MonotonicNanos();
    FlushBacklogLocked();
  }
  life->process->commands().Notify();
  changed_.notify_all();
  return life;
}

// Attaches, then maps every region and loads every kernel that is to be there. A region that cannot
// be mapped any more (its owner truncated it) is left out: launches on it fail, the others go on.
absl::Status SupervisedExecutor::Restore(Life* life) {
  size_t unanswered = 1;
  RETURN_IF_ERROR(life->process->SendAttach(kAttachId));
  RETURN_IF_ERROR(AwaitAnswers(life, 0, &unanswered));
  std::vector<std::shared_ptr<KeptRegion>> regions;
  std::vector<std::shared_ptr<KeptKernel>> kernels;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& entry : regions_) regions.push_back(entry.second);
    for (const auto& entry : kernels_) {
      if (quarantined_.count(entry.first) == 0) kernels.push_back(entry.second);
    }
  }
  for (const auto& region : regions) {
    RETURN_IF_ERROR(life->process->Send(region->request, {region->fd.get()}));
    ++unanswered;
    RETURN_IF_ERROR(AwaitAnswers(life, kRestoreWindow, &unanswered));
  }
  for (const auto& kernel : kernels) {
    RETURN_IF_ERROR(life->process->Send(kernel->request, {}));
    ++unanswered;
    RETURN_IF_ERROR(AwaitAnswers(life, kRestoreWindow, &unanswered));
  }
  return AwaitAnswers(life, 0, &unanswered);
}

absl::Status SupervisedExecutor::AwaitAnswers(Life* life, size_t most_left, size_t* unanswered) {
  uint64_t deadline =
      MonotonicNanos() + static_cast<uint64_t>(absl::ToInt64Nanoseconds(kStartLimit));
  while (*unanswered > most_left) {
    const uint64_t now = MonotonicNanos();
    if (now >= deadline) {
      life->process->Kill(absl::StrCat("no answer for ", absl::FormatDuration(kStartLimit)));
      return absl::UnavailableError("no answer");
    }
    std::vector<worker::ExecutorResponse> responses;
    const int timeout_ms = static_cast<int>((deadline - now) / 1000000) + 1;
    if (!life->process->Poll(timeout_ms, -1, &responses)) return absl::UnavailableError("ended");
    for (const worker::ExecutorResponse& response : responses) {
      if (response.id() == kAttachId && response.code() != 0) {
        life->process->Kill(absl::StrCat("it did not attach: ", response.message()));
        return absl::UnavailableError("not attached");
      }
    }
    *unanswered -= std::min(*unanswered, responses.size());
    if (!responses.empty())
      deadline = now + static_cast<uint64_t>(absl::ToInt64Nanoseconds(kStartLimit));
  }
  return absl::OkStatus();
}

void SupervisedExecutor::Watch(Life* life) {
  const absl::Duration tick =
      std::min(std::max(options_.kill_after / 8, absl::Milliseconds(5)), absl::Seconds(1));
  const int tick_ms = static_cast<int>(absl::ToInt64Milliseconds(tick));
  for (;;) {
    std::vector<worker::ExecutorResponse> responses;
    const bool alive = life->process->Poll(tick_ms, wake_.get(), &responses);
    AnswerCalls(responses);
    if (!alive) return;
    CheckProgress(life);
    std::unique_lock<std::mutex> lock(mutex_);
    if (stopping_) {
      lock.unlock();
      life->process->AskToEnd();
      return;
    }
    if (FlushBacklogLocked()) life->process->commands().Notify();
  }
}

void SupervisedExecutor::AnswerCalls(const std::vector<worker::ExecutorResponse>& responses) {
  if (responses.empty()) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const worker::ExecutorResponse& response : responses) {
      auto found = calls_.find(response.id());
      if (found == calls_.end()) continue;
      Call* call = found->second;
      calls_.erase(found);
      call->status =
          absl::Status(static_cast<absl::StatusCode>(response.code()), response.message());
      call->answered = true;
      if (call->status.ok()) call->on_success();
    }
  }
  changed_.notify_all();
}

void SupervisedExecutor::CheckProgress(Life* life) {
  std::string reason;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t now = MonotonicNanos();
    // A full completion ring is our own delay, not the executor's.
    if (sent_ > 0 && !life->process->completions().Readable() &&
        absl::Nanoseconds(now - std::min(now, progress_ns_)) > options_.kill_after) {
      reason = absl::StrCat("a launch ran longer than ", absl::FormatDuration(options_.kill_after));
    }
    for (const auto& entry : calls_) {
      if (absl::Nanoseconds(now - std::min(now, entry.second->start_ns)) >
          std::max(kCallLimit, options_.kill_after)) {
        reason = "a request was not answered in time";
      }
    }
  }
  if (!reason.empty()) life->process->Kill(reason);
}

void SupervisedExecutor::EndLife(const std::shared_ptr<Life>& life) {
  const ExecutorDeath death = life->process->Reap();
  bool expected;
  absl::Status reason;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    life_.reset();
    expected = stopping_;
    reason = expected ? absl::UnavailableError("the executor was stopped")
                      : absl::UnavailableError(absl::StrCat(death.text, NoteCulprit(death)));
    life->reason = reason;
    for (auto& entry : calls_) {
      Call* call = entry.second;
      call->status = reason;
      call->answered = true;
      call->repeat = !expected &&
                     !(death.by_fault && call->kernel != 0 && call->kernel == death.loading_kernel);
    }
    calls_.clear();
  }
  changed_.notify_all();
  if (!expected && options_.on_death) options_.on_death(reason);
  life->ended.store(true);
  life->process->completions().Interrupt();
  life->completion_thread.join();
  // Launches of a kernel barred just now that were not sent yet; the next executor does not load
  // it.
  std::set<uint64_t> barred;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    barred = quarantined_;
  }
  for (uint64_t kernel : barred) {
    FailLaunches(Barred(kernel),
                 [kernel](const PendingLaunch& launch) { return launch.kernel == kernel; });
  }
}

// Names what ran, and bars it if it was at fault. The executor's own word is checked against what
// we gave it.
std::string SupervisedExecutor::NoteCulprit(const ExecutorDeath& death) {
  auto launch = launches_.find(death.running_launch);
  uint64_t kernel = 0;
  const char* doing = "ran";
  if (launch != launches_.end() && launch->second.sent) {
    kernel = launch->second.kernel;
  } else if (kernels_.count(death.loading_kernel) != 0) {
    kernel = death.loading_kernel;
    doing = "loaded";
  }
  if (kernel == 0) return "";
  if (death.by_fault) quarantined_.insert(kernel);
  return absl::StrCat(" while it ", doing, " kernel ", kernel);
}

void SupervisedExecutor::BackOff(int failures) {
  const absl::Duration delay =
      std::min(absl::Milliseconds(10) * (1 << std::min(failures, 10)), kLongestBackoff);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, absl::ToChronoMilliseconds(delay), [this] { return stopping_; });
}

void SupervisedExecutor::FailLaunches(const absl::Status& reason,
                                      const std::function<bool(const PendingLaunch&)>& chosen) {
  Callbacks callbacks;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = launches_.begin(); it != launches_.end();) {
      if (!chosen(it->second)) {
        ++it;
        continue;
      }
      if (it->second.sent) --sent_;
      LaunchResult result;
      result.status = reason;
      callbacks.emplace_back(std::move(it->second.done), std::move(result));
      it = launches_.erase(it);
    }
    // Removals stay: a later executor still has to hear of them.
    backlog_.erase(std::remove_if(backlog_.begin(), backlog_.end(),
                                  [this](const QueuedCommand& command) {
                                    return command.kind == CommandKind::kLaunch &&
                                           launches_.count(command.id) == 0;
                                  }),
                   backlog_.end());
    CountLaunchesLocked();
  }
  Run(std::move(callbacks));
}

// ---- Completions: read by a thread for each executor, or by a Submit that polls.

void SupervisedExecutor::ReadCompletions(Life* life) {
  pthread_setname_np(pthread_self(), "exec-complete");
  RingConsumer& ring = life->process->completions();
  for (;;) {
    const bool ended = life->ended.load();  // before reading: what it wrote in its life is seen
    std::vector<RingCompletion> batch;
    bool damaged;
    {
      std::lock_guard<std::mutex> lock(life->reader_mutex);
      batch = std::move(life->carried);
      life->carried.clear();
      RingCompletion completion;
      while (batch.size() < kMaxBatch && TakeOne(life, &completion))
        batch.push_back(std::move(completion));
      damaged = life->damaged;
    }
    if (!batch.empty()) {
      Deliver(std::move(batch));
    } else if (ended) {
      break;
    } else if (damaged) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return !life->reason.ok(); });  // EndLife is near
    } else {
      ring.Wait(kPollNs, life->ended);
    }
  }
  absl::Status reason;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    reason = life->reason;
  }
  FailLaunches(reason, [](const PendingLaunch& launch) { return launch.sent; });
}

// Takes a completion from the ring; false if there is none. A ring that holds garbage costs the
// executor its life.
bool SupervisedExecutor::TakeOne(Life* life, RingCompletion* completion) {
  if (life->damaged) return false;
  const absl::StatusOr<bool> read = life->process->completions().TryRead(&life->record);
  if (read.ok() && !*read) return false;
  const absl::Status status =
      read.ok() ? DecodeCompletion(life->record, completion) : read.status();
  if (status.ok()) return true;
  life->damaged = true;
  const absl::string_view message = status.message();
  life->process->Kill(absl::StrCat("it wrote garbage: ", message));
  return false;
}

void SupervisedExecutor::PollForOwn(Life* life, uint64_t id, absl::Duration spin) {
  std::vector<RingCompletion> own;
  bool wake = false;
  {
    std::lock_guard<std::mutex> lock(life->reader_mutex);
    PollFor(static_cast<uint64_t>(absl::ToInt64Nanoseconds(spin)), [&] {
      RingCompletion completion;
      if (!TakeOne(life, &completion))
        return life->damaged || life->ended.load(std::memory_order_relaxed);
      wake = completion.id != id;
      (wake ? life->carried : own).push_back(std::move(completion));
      return true;
    });
  }
  life->process->completions().EndPolling(wake);
  if (!own.empty()) Deliver(std::move(own));
}

void SupervisedExecutor::Deliver(std::vector<RingCompletion> completions) {
  Callbacks callbacks;
  callbacks.reserve(completions.size());
  std::shared_ptr<Life> notified;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (RingCompletion& completion : completions) {
      auto found = launches_.find(completion.id);
      if (found == launches_.end() || !found->second.sent) continue;  // nobody waits for it
      PendingLaunch& launch = found->second;
      LaunchResult result;
      result.status = std::move(completion.status);
      if (completion.start_ns >= launch.submit_ns && completion.end_ns >= completion.start_ns) {
        result.queue_seconds = static_cast<double>(completion.start_ns - launch.submit_ns) * 1e-9;
        result.kernel_seconds = static_cast<double>(completion.end_ns - completion.start_ns) * 1e-9;
      }
      result.printed = std::move(completion.printed);
      callbacks.emplace_back(std::move(launch.done), std::move(result));
      launches_.erase(found);
      --sent_;
    }
    progress_ns_ = MonotonicNanos();
    if (FlushBacklogLocked()) notified = life_;
    CountLaunchesLocked();
  }
  if (notified != nullptr) notified->process->commands().Notify();
  Run(std::move(callbacks));
}

void SupervisedExecutor::Run(Callbacks callbacks) {
  for (auto& entry : callbacks) entry.first(std::move(entry.second));
}

// ---- Launches and removals: in order, through the ring.

absl::Status SupervisedExecutor::CheckAdmission(uint64_t kernel, size_t record_bytes) const {
  if (stopping_) return absl::UnavailableError("the executor was stopped");
  if (quarantined_.count(kernel) != 0) return Barred(kernel);
  if (record_bytes > std::max<size_t>(options_.ring_bytes, 4096) / 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("a launch of ", record_bytes, " bytes does not fit the ring"));
  }
  if (backlog_.size() >= kMaxBacklog) {
    return absl::ResourceExhaustedError(
        absl::StrCat(launches_.size(), " launches wait for the executor already"));
  }
  return absl::OkStatus();
}

void SupervisedExecutor::Submit(const LaunchCommand& command, absl::Duration spin,
                                DoneCallback done) {
  const uint64_t id = next_launch_.fetch_add(1, std::memory_order_relaxed);
  QueuedCommand queued = {CommandKind::kLaunch, id,
                          EncodeCommand(CommandKind::kLaunch, id, command)};
  std::shared_ptr<Life> life;
  bool polls = false;
  bool sent = false;
  absl::Status refused;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    refused = CheckAdmission(command.kernel, queued.record.size());
    if (refused.ok()) {
      life = life_;
      // Only a launch that is alone in flight is worth polling for: its completion is the next one.
      // Said before the executor can see the launch, so that it does not wake the completion
      // thread.
      polls = spin > absl::ZeroDuration() && life != nullptr && launches_.empty() &&
              life->process->completions().BeginPolling();
      launches_.emplace(id,
                        PendingLaunch{command.kernel, MonotonicNanos(), false, std::move(done)});
      CountLaunchesLocked();
      sent = EnqueueLocked(std::move(queued));
    }
  }
  if (!refused.ok()) {
    LaunchResult result;
    result.status = refused;
    return done(std::move(result));
  }
  if (sent) life->process->commands().Notify();
  if (!polls) return;
  if (sent) {
    PollForOwn(life.get(), id, spin);
  } else {
    life->process->completions().EndPolling(false);
  }
}

// Returns whether the executor has the command; else it waits in the backlog.
bool SupervisedExecutor::EnqueueLocked(QueuedCommand command) {
  if (life_ != nullptr && backlog_.empty() && WriteLocked(command)) return true;
  backlog_.push_back(std::move(command));
  return false;
}

bool SupervisedExecutor::WriteLocked(const QueuedCommand& command) {
  const absl::Status written = life_->process->commands().TryWrite({command.record});
  if (!written.ok()) {
    if (written.code() != absl::StatusCode::kResourceExhausted) {
      const absl::string_view message = written.message();
      life_->process->Kill(absl::StrCat("launches cannot be handed to it: ", message));
    }
    return false;
  }
  switch (command.kind) {
    case CommandKind::kLaunch:
      launches_.at(command.id).sent = true;
      if (sent_++ == 0) progress_ns_ = MonotonicNanos();
      break;
    // From here on a restarted executor is not told of them any more; launches before them are
    // sent.
    case CommandKind::kUnmapRegion:
      regions_.erase(command.id);
      break;
    case CommandKind::kUnloadKernel:
      kernels_.erase(command.id);
      break;
  }
  return true;
}

bool SupervisedExecutor::FlushBacklogLocked() {
  bool flushed = false;
  while (life_ != nullptr && !backlog_.empty() && WriteLocked(backlog_.front())) {
    backlog_.pop_front();
    flushed = true;
  }
  return flushed;
}

void SupervisedExecutor::UnmapRegion(uint64_t region) {
  std::shared_ptr<Life> life;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (regions_.count(region) == 0) return;
    if (EnqueueLocked(
            {CommandKind::kUnmapRegion, region, EncodeRemoval(CommandKind::kUnmapRegion, region)}))
      life = life_;
  }
  if (life != nullptr) life->process->commands().Notify();
}

void SupervisedExecutor::UnloadKernel(uint64_t kernel) {
  std::shared_ptr<Life> life;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (kernels_.count(kernel) == 0) return;
    if (EnqueueLocked({CommandKind::kUnloadKernel, kernel,
                       EncodeRemoval(CommandKind::kUnloadKernel, kernel)}))
      life = life_;
  }
  if (life != nullptr) life->process->commands().Notify();
}

std::vector<uint64_t> SupervisedExecutor::quarantined() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {quarantined_.begin(), quarantined_.end()};
}

// ---- Requests: over the control socket, answered one by one.

absl::Status SupervisedExecutor::MapRegion(uint64_t region, int fd, uint64_t offset, uint64_t size,
                                           bool read_only) {
  if (region == 0) return absl::InvalidArgumentError("0 names no region");
  auto kept = std::make_shared<KeptRegion>();
  kept->fd = UniqueFd::Duplicate(fd);
  if (!kept->fd.open()) return SystemStatus(errno, "keeping the descriptor of a region");
  kept->request.set_id(kRestoreId);
  worker::MapRegion* map = kept->request.mutable_map_region();
  map->set_region(region);
  map->set_offset(offset);
  map->set_size(size);
  map->set_read_only(read_only);
  return CallExecutor(kept->request, kept->fd.get(), 0,
                      [this, region, kept] { regions_.emplace(region, kept); });
}

absl::Status SupervisedExecutor::LoadKernel(uint64_t kernel, const storage::Artifact& artifact) {
  if (kernel == 0) return absl::InvalidArgumentError("0 names no kernel");
  auto kept = std::make_shared<KeptKernel>();
  kept->request.set_id(kRestoreId);
  worker::LoadKernel* load = kept->request.mutable_load_kernel();
  load->set_kernel(kernel);
  *load->mutable_artifact() = artifact;
  load->mutable_artifact()->clear_stages();  // text for people
  return CallExecutor(kept->request, -1, kernel,
                      [this, kernel, kept] { kernels_.emplace(kernel, kept); });
}

// Sends `request` and waits for the answer, through restarts of the executor unless the request
// caused them.
absl::Status SupervisedExecutor::CallExecutor(worker::ExecutorRequest request, int fd,
                                              uint64_t kernel, std::function<void()> on_success) {
  constexpr int kAttempts = 3;
  Call call;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    call = Call();
    call.kernel = kernel;
    call.on_success = on_success;
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, absl::ToChronoMilliseconds(kStartLimit),
                           [this] { return life_ != nullptr || stopping_; })) {
      return absl::UnavailableError(
          absl::StrCat("there is no executor: ", start_status_.message()));
    }
    if (stopping_) return absl::UnavailableError("the executor was stopped");
    std::shared_ptr<Life> life = life_;
    const uint64_t id = next_call_++;
    request.set_id(id);
    call.start_ns = MonotonicNanos();
    calls_[id] = &call;
    lock.unlock();
    const absl::Status sent =
        fd >= 0 ? life->process->Send(request, {fd}) : life->process->Send(request, {});
    lock.lock();
    // Where sending failed because the executor is dying, EndLife answers.
    if (!sent.ok() && sent.code() != absl::StatusCode::kUnavailable && !call.answered) {
      calls_.erase(id);
      return sent;
    }
    changed_.wait(lock, [&] { return call.answered; });
    if (!call.repeat) break;
  }
  return call.status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExecutorClient>> ExecutorClient::Start(ExecutorOptions options) {
  auto executor = std::make_unique<SupervisedExecutor>(std::move(options));
  RETURN_IF_ERROR(executor->Begin());
  return executor;
}

}  // namespace tessera::runtime
