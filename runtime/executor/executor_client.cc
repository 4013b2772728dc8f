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

// Before the completion thread sleeps. Longer polls hurt where cores are shared; elsewhere they
// spare the executor a wake-up for each of the launches that come one upon the other.
constexpr uint64_t kPollNs = 5000;
constexpr uint64_t kPollWithCoresNs = 50000;
constexpr size_t kMaxBatch = 64;  // completions taken before their callbacks run
constexpr size_t kMaxBacklog = 1 << 16;
constexpr absl::Duration kCallLimit =
    absl::Seconds(60);  // linking the largest kernels takes a few seconds
constexpr size_t kRestoreWindow =
    32;  // requests unanswered while a new executor gets regions and kernels back
constexpr uint64_t kAttachId = 0;  // of requests that no caller waits for; calls count from 1
constexpr uint64_t kRestoreId = ~uint64_t{0};
constexpr absl::Duration kLongestBackoff = absl::Seconds(5);

bool IsLaunch(CommandKind kind) {
  return kind == CommandKind::kLaunch || kind == CommandKind::kCopy;
}

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
  absl::StatusOr<DeviceMemoryInfo> MapDeviceMemory(uint64_t region,
                                                   const DeviceMemorySource& source) override;
  void UnmapRegion(uint64_t region) override;
  absl::Status ImportEvent(uint64_t event, const std::string& cuda_ipc,
                           const std::string& device_uuid) override;
  void ReleaseEvent(uint64_t event) override;
  absl::StatusOr<worker::DeviceStats> Stats() override;
  absl::Status LoadKernel(uint64_t kernel, const storage::Artifact& artifact) override;
  void UnloadKernel(uint64_t kernel) override;
  void Submit(const LaunchCommand& command, absl::Duration spin, DoneCallback done) override;
  void Copy(const CopyCommand& command, DoneCallback done) override;

  pid_t pid() const override { return pid_.load(); }
  uint32_t restarts() const override { return restarts_.load(); }
  uint32_t in_flight() const override { return in_flight_.load(); }
  std::vector<uint64_t> quarantined() const override;
  std::vector<std::string> quarantined_names() const override;

 private:
  // One executor process and what belongs to it alone.
  struct Life {
    std::unique_ptr<ExecutorIncarnation> process;
    std::thread completion_thread;
    std::mutex reader_mutex;  // who reads the completion ring
    std::string record;       // by reader_mutex: for its memory
    bool damaged = false;     // by reader_mutex: the ring is not read any more
    std::atomic<bool> ended{false};
    absl::Status reason;  // by mutex_; set before `ended`
  };
  struct PendingLaunch {
    uint64_t kernel = 0;
    uint64_t submit_ns = 0;
    bool sent = false;  // in the executor's ring; else in the backlog
    std::function<void()> on_enqueued;
    DoneCallback done;
  };
  struct QueuedCommand {
    CommandKind kind;
    uint64_t id;  // of the launch, region, kernel or event
    std::string record;
  };
  // What a restarted executor is told again.
  struct KeptRequest {
    std::vector<UniqueFd> fds;
    worker::ExecutorRequest request;

    std::vector<int> numbers() const {
      std::vector<int> numbers;
      for (const UniqueFd& fd : fds) numbers.push_back(fd.get());
      return numbers;
    }
  };
  // A request whose caller waits.
  struct Call {
    uint64_t kernel = 0;  // of LoadKernel
    uint64_t start_ns = 0;
    std::function<void(ExecutorAnswer*)>
        on_success;  // runs under mutex_, before the executor can end
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
  std::string NoteSuspects(const ExecutorDeath& death);
  std::string NameOf(uint64_t kernel) const;
  void Quarantine(uint64_t kernel);
  void AnswerCalls(std::vector<ExecutorAnswer>* answers);
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

  absl::Status CallExecutor(worker::ExecutorRequest request, const std::vector<int>& fds,
                            uint64_t kernel, std::function<void(ExecutorAnswer*)> on_success);
  absl::Status CallToKeep(std::map<uint64_t, std::shared_ptr<KeptRequest>>* kept_in, uint64_t id,
                          std::shared_ptr<KeptRequest> kept, uint64_t kernel);
  void SubmitCommand(CommandKind kind, const LaunchCommand& command, absl::Duration spin,
                     DoneCallback done);
  void Remove(CommandKind kind, uint64_t object,
              const std::map<uint64_t, std::shared_ptr<KeptRequest>>& kept_in);

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
  std::map<uint64_t, std::shared_ptr<KeptRequest>> regions_, kernels_, events_;
  std::set<uint64_t> quarantined_;
  std::map<uint64_t, std::string> quarantined_names_;
  std::set<uint64_t> suspected_;  // kernels, once; on probation in every later executor
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
  std::vector<std::shared_ptr<KeptRequest>> kept;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& entry : regions_) kept.push_back(entry.second);
    for (const auto& entry : events_) kept.push_back(entry.second);
    for (const auto& entry : kernels_) {
      if (quarantined_.count(entry.first) != 0) continue;
      if (suspected_.count(entry.first) != 0)
        entry.second->request.mutable_load_kernel()->set_on_probation(true);
      kept.push_back(entry.second);
    }
  }
  for (const auto& request : kept) {
    RETURN_IF_ERROR(life->process->Send(request->request, request->numbers()));
    ++unanswered;
    RETURN_IF_ERROR(AwaitAnswers(life, kRestoreWindow, &unanswered));
  }
  return AwaitAnswers(life, 0, &unanswered);
}

absl::Status SupervisedExecutor::AwaitAnswers(Life* life, size_t most_left, size_t* unanswered) {
  uint64_t deadline =
      MonotonicNanos() + static_cast<uint64_t>(absl::ToInt64Nanoseconds(options_.start_limit));
  while (*unanswered > most_left) {
    const uint64_t now = MonotonicNanos();
    if (now >= deadline) {
      life->process->Kill(
          absl::StrCat("no answer for ", absl::FormatDuration(options_.start_limit)));
      return absl::UnavailableError("no answer");
    }
    std::vector<ExecutorAnswer> responses;
    const int timeout_ms = static_cast<int>((deadline - now) / 1000000) + 1;
    if (!life->process->Poll(timeout_ms, -1, &responses)) return absl::UnavailableError("ended");
    for (const ExecutorAnswer& answer : responses) {
      const worker::ExecutorResponse& response = answer.response;
      if (response.id() == kAttachId && response.code() != 0) {
        life->process->Kill(absl::StrCat("it did not attach: ", response.message()));
        return absl::UnavailableError("not attached");
      }
    }
    *unanswered -= std::min(*unanswered, responses.size());
    if (!responses.empty())
      deadline = now + static_cast<uint64_t>(absl::ToInt64Nanoseconds(options_.start_limit));
  }
  return absl::OkStatus();
}

void SupervisedExecutor::Watch(Life* life) {
  const absl::Duration tick =
      std::min(std::max(options_.kill_after / 8, absl::Milliseconds(5)), absl::Seconds(1));
  const int tick_ms = static_cast<int>(absl::ToInt64Milliseconds(tick));
  for (;;) {
    std::vector<ExecutorAnswer> responses;
    const bool alive = life->process->Poll(tick_ms, wake_.get(), &responses);
    AnswerCalls(&responses);
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

void SupervisedExecutor::AnswerCalls(std::vector<ExecutorAnswer>* answers) {
  if (answers->empty()) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (ExecutorAnswer& answer : *answers) {
      const worker::ExecutorResponse& response = answer.response;
      auto found = calls_.find(response.id());
      if (found == calls_.end()) continue;
      Call* call = found->second;
      calls_.erase(found);
      call->status =
          absl::Status(static_cast<absl::StatusCode>(response.code()), response.message());
      call->answered = true;
      if (call->status.ok()) call->on_success(&answer);
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
    // One that looks itself is given time to say which launch it was.
    const absl::Duration limit = options_.kill_after * (options_.concurrent ? 2 : 1);
    if (sent_ > 0 && !life->process->completions().Readable() &&
        absl::Nanoseconds(now - std::min(now, progress_ns_)) > limit) {
      reason = absl::StrCat("a launch ran longer than ", absl::FormatDuration(limit));
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
  if (!death.suspects.empty()) return NoteSuspects(death);
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
  if (death.by_fault) Quarantine(kernel);
  return absl::StrCat(" while it ", doing, " kernel ", NameOf(kernel),
                      death.by_fault ? ", which is quarantined now" : "");
}

// Of an executor that ran several launches at once. One suspect is barred if nobody else can have
// done it; several, and those of a GPU whose faults reach every process on it, run alone from now
// on, and one that loses its executor then is barred.
std::string SupervisedExecutor::NoteSuspects(const ExecutorDeath& death) {
  std::set<uint64_t> kernels;
  for (uint64_t id : death.suspects) {
    auto launch = launches_.find(id);
    if (launch != launches_.end() && launch->second.sent && launch->second.kernel != 0)
      kernels.insert(launch->second.kernel);
  }
  std::string text;
  for (uint64_t kernel : kernels) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", NameOf(kernel));
    if (!death.by_fault) continue;
    if (kernels.size() == 1 && (death.certain || suspected_.count(kernel) != 0)) {
      Quarantine(kernel);
      absl::StrAppend(&text, ", which is quarantined now");
    } else {
      suspected_.insert(kernel);
    }
  }
  if (kernels.empty()) return "";
  return absl::StrCat(kernels.size() == 1 ? " while it ran kernel " : " while it ran kernels ",
                      text);
}

void SupervisedExecutor::Quarantine(uint64_t kernel) {
  quarantined_.insert(kernel);
  quarantined_names_[kernel] = NameOf(kernel);
}

std::string SupervisedExecutor::NameOf(uint64_t kernel) const {
  auto kept = kernels_.find(kernel);
  if (kept == kernels_.end()) return absl::StrCat(kernel);
  const std::string& name = kept->second->request.load_kernel().artifact().metadata().kernel();
  return absl::StrCat(name.empty() ? "" : name, name.empty() ? "" : " (", "number ", kernel,
                      name.empty() ? "" : ")");
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
                                    return IsLaunch(command.kind) &&
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
      ring.Wait(HasCoresToPoll() && in_flight_.load() > 0 ? kPollWithCoresNs : kPollNs,
                life->ended);
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
  std::vector<RingCompletion> batch;
  {
    std::lock_guard<std::mutex> lock(life->reader_mutex);
    PollFor(static_cast<uint64_t>(absl::ToInt64Nanoseconds(spin)), [&] {
      RingCompletion completion;
      while (TakeOne(life, &completion)) {
        const bool own = completion.id == id;
        batch.push_back(std::move(completion));
        if (own || batch.size() >= kMaxBatch) return true;
      }
      return life->damaged || life->ended.load(std::memory_order_relaxed);
    });
  }
  life->process->completions().EndPolling(false);
  if (!batch.empty()) Deliver(std::move(batch));
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
      if (completion.enqueued) {
        if (launch.on_enqueued)
          callbacks.emplace_back(
              [told = std::exchange(launch.on_enqueued, nullptr)](LaunchResult) { told(); },
              LaunchResult());
        continue;
      }
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
  SubmitCommand(CommandKind::kLaunch, command, spin, std::move(done));
}

void SupervisedExecutor::Copy(const CopyCommand& command, DoneCallback done) {
  const LaunchParam places[] = {{command.to, command.to_offset, command.bytes},
                                {command.from, command.from_offset, command.bytes}};
  LaunchCommand copy;
  copy.session = command.session;
  copy.params = places;
  copy.num_params = 2;
  SubmitCommand(CommandKind::kCopy, copy, absl::ZeroDuration(), std::move(done));
}

void SupervisedExecutor::SubmitCommand(CommandKind kind, const LaunchCommand& command,
                                       absl::Duration spin, DoneCallback done) {
  const uint64_t id = next_launch_.fetch_add(1, std::memory_order_relaxed);
  QueuedCommand queued = {kind, id, EncodeCommand(kind, id, command)};
  std::shared_ptr<Life> life;
  bool polls = false;
  bool sent = false;
  absl::Status refused;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    refused = CheckAdmission(command.kernel, queued.record.size());
    if (refused.ok()) {
      life = life_;
      // Worth polling for is a launch that is alone in flight, for its completion is the next one,
      // and one that is answered when the device has it, for that is soon. Said before the executor
      // can see the launch, so that it does not wake the completion thread.
      polls = spin > absl::ZeroDuration() && life != nullptr &&
              (launches_.empty() || command.on_enqueued) &&
              life->process->completions().BeginPolling();
      launches_.emplace(id, PendingLaunch{command.kernel, MonotonicNanos(), false,
                                          command.on_enqueued, std::move(done)});
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
    case CommandKind::kCopy:
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
      suspected_.erase(command.id);
      break;
    case CommandKind::kReleaseEvent:
      events_.erase(command.id);
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
  Remove(CommandKind::kUnmapRegion, region, regions_);
}

void SupervisedExecutor::UnloadKernel(uint64_t kernel) {
  Remove(CommandKind::kUnloadKernel, kernel, kernels_);
}

void SupervisedExecutor::ReleaseEvent(uint64_t event) {
  Remove(CommandKind::kReleaseEvent, event, events_);
}

void SupervisedExecutor::Remove(CommandKind kind, uint64_t object,
                                const std::map<uint64_t, std::shared_ptr<KeptRequest>>& kept_in) {
  std::shared_ptr<Life> life;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (kept_in.count(object) == 0) return;
    if (EnqueueLocked({kind, object, EncodeRemoval(kind, object)})) life = life_;
  }
  if (life != nullptr) life->process->commands().Notify();
}

std::vector<uint64_t> SupervisedExecutor::quarantined() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {quarantined_.begin(), quarantined_.end()};
}

std::vector<std::string> SupervisedExecutor::quarantined_names() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> names;
  for (const auto& entry : quarantined_names_) names.push_back(entry.second);
  return names;
}

// ---- Requests: over the control socket, answered one by one.

// A call whose request every later executor is told again, until `id` is removed.
absl::Status SupervisedExecutor::CallToKeep(
    std::map<uint64_t, std::shared_ptr<KeptRequest>>* kept_in, uint64_t id,
    std::shared_ptr<KeptRequest> kept, uint64_t kernel) {
  return CallExecutor(kept->request, kept->numbers(), kernel,
                      [kept_in, id, kept](ExecutorAnswer*) { kept_in->emplace(id, kept); });
}

absl::Status SupervisedExecutor::MapRegion(uint64_t region, int fd, uint64_t offset, uint64_t size,
                                           bool read_only) {
  if (region == 0) return absl::InvalidArgumentError("0 names no region");
  auto kept = std::make_shared<KeptRequest>();
  kept->fds.push_back(UniqueFd::Duplicate(fd));
  if (!kept->fds[0].open()) return SystemStatus(errno, "keeping the descriptor of a region");
  kept->request.set_id(kRestoreId);
  worker::MapRegion* map = kept->request.mutable_map_region();
  map->set_region(region);
  map->set_offset(offset);
  map->set_size(size);
  map->set_read_only(read_only);
  return CallToKeep(&regions_, region, std::move(kept), 0);
}

absl::StatusOr<DeviceMemoryInfo> SupervisedExecutor::MapDeviceMemory(
    uint64_t region, const DeviceMemorySource& source) {
  if (region == 0) return absl::InvalidArgumentError("0 names no region");
  auto kept = std::make_shared<KeptRequest>();
  for (int fd : source.vmm) {
    kept->fds.push_back(UniqueFd::Duplicate(fd));
    if (!kept->fds.back().open()) return SystemStatus(errno, "keeping the descriptor of a region");
  }
  kept->request.set_id(kRestoreId);
  worker::MapDeviceMemory* map = kept->request.mutable_map_device_memory();
  map->set_region(region);
  if (!source.cuda_ipc.empty()) map->set_cuda_ipc(source.cuda_ipc);
  if (!source.vmm.empty()) map->set_vmm(true);
  if (source.allocate != 0) map->set_allocate(source.allocate);
  for (uint64_t bytes : source.chunk_bytes) map->add_chunk_bytes(bytes);
  map->set_offset(source.offset);
  map->set_size(source.size);
  map->set_read_only(source.read_only);
  map->set_device_uuid(source.device_uuid);
  DeviceMemoryInfo info;
  RETURN_IF_ERROR(CallExecutor(
      kept->request, kept->numbers(), 0, [this, region, kept, &info](ExecutorAnswer* answer) {
        info.size = answer->response.size();
        info.handle_bytes = answer->response.handle_bytes();
        // What the executor made lives on in its export: a later executor maps that.
        if (!answer->descriptors.empty()) {
          info.exported = std::move(answer->descriptors[0]);
          kept->fds.push_back(UniqueFd::Duplicate(info.exported.get()));
          worker::MapDeviceMemory* map = kept->request.mutable_map_device_memory();
          map->set_vmm(true);
          map->set_size(info.size);
          map->clear_chunk_bytes();
          map->add_chunk_bytes(info.handle_bytes);
        }
        regions_.emplace(region, kept);
      }));
  return info;
}

absl::Status SupervisedExecutor::ImportEvent(uint64_t event, const std::string& cuda_ipc,
                                             const std::string& device_uuid) {
  if (event == 0) return absl::InvalidArgumentError("0 names no event");
  auto kept = std::make_shared<KeptRequest>();
  kept->request.set_id(kRestoreId);
  worker::ImportEvent* import = kept->request.mutable_import_event();
  import->set_event(event);
  import->set_cuda_ipc(cuda_ipc);
  import->set_device_uuid(device_uuid);
  return CallToKeep(&events_, event, std::move(kept), 0);
}

absl::StatusOr<worker::DeviceStats> SupervisedExecutor::Stats() {
  worker::ExecutorRequest request;
  request.mutable_get_device_stats();
  worker::DeviceStats stats;
  RETURN_IF_ERROR(CallExecutor(
      request, {}, 0, [&stats](ExecutorAnswer* answer) { stats = answer->response.stats(); }));
  return stats;
}

absl::Status SupervisedExecutor::LoadKernel(uint64_t kernel, const storage::Artifact& artifact) {
  if (kernel == 0) return absl::InvalidArgumentError("0 names no kernel");
  auto kept = std::make_shared<KeptRequest>();
  kept->request.set_id(kRestoreId);
  worker::LoadKernel* load = kept->request.mutable_load_kernel();
  load->set_kernel(kernel);
  *load->mutable_artifact() = artifact;
  load->mutable_artifact()->clear_stages();  // text for people
  return CallToKeep(&kernels_, kernel, std::move(kept), kernel);
}

// Sends `request` and waits for the answer, through restarts of the executor unless the request
// caused them.
absl::Status SupervisedExecutor::CallExecutor(worker::ExecutorRequest request,
                                              const std::vector<int>& fds, uint64_t kernel,
                                              std::function<void(ExecutorAnswer*)> on_success) {
  constexpr int kAttempts = 3;
  Call call;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    call = Call();
    call.kernel = kernel;
    call.on_success = on_success;
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, absl::ToChronoMilliseconds(options_.start_limit),
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
    const absl::Status sent = life->process->Send(request, fds);
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
