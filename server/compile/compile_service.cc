#include "server/compile/compile_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/status/error_detail.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

using Clock = std::chrono::steady_clock;

// More failures than this are a flood; the oldest knowledge of them is not worth memory.
constexpr size_t kMaxFailures = 4096;

std::string ReasonOf(const absl::Status& status) {
  std::optional<api::ErrorDetail> detail = DetailOf(status);
  return detail ? detail->reason() : "";
}

bool WouldRepeat(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDeadlineExceeded:
      return true;
    case absl::StatusCode::kResourceExhausted:
      return ReasonOf(status) != "COMPILE_QUEUE_FULL";
    default:
      return ReasonOf(status) == "COMPILER_DIED";
  }
}

// A longer deadline or more memory might end otherwise.
bool MayBeTheLimits(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status) ||
         ReasonOf(status) == "COMPILER_DIED";
}

}  // namespace

const char* OutcomeName(CompileOutcome outcome) {
  switch (outcome) {
    case CompileOutcome::kHit:
      return "hit";
    case CompileOutcome::kCompiled:
      return "compiled";
    case CompileOutcome::kCoalesced:
      return "coalesced";
  }
  return "";
}

absl::Status ValidateArtifact(const storage::Artifact& artifact, const storage::CompileJob& job) {
  const storage::KernelMetadata& metadata = artifact.metadata();
  if (artifact.code().empty()) return absl::DataLossError("the artifact holds no code");
  if (metadata.kernel() != job.kernel())
    return absl::DataLossError(absl::StrCat("the artifact is of kernel '", metadata.kernel(), "'"));
  if (metadata.target() != job.target())
    return absl::DataLossError(
        absl::StrCat("the artifact is for target '", metadata.target(), "'"));
  for (const storage::EntryParameter& parameter : metadata.parameters())
    if (parameter.source_index() >= static_cast<uint32_t>(job.parameters_size()))
      return absl::DataLossError(
          absl::StrCat("the artifact's parameter '", parameter.name(), "' has no source"));
  return absl::OkStatus();
}

CompileService::CompileService(cache::CacheStore* store, CompileBackend* backend, TaskPool* pool,
                               Timer* timer, Metrics* metrics, std::string compiler_build,
                               absl::Duration remember_failures, std::string limits)
    : store_(store),
      backend_(backend),
      pool_(pool),
      metrics_(metrics),
      compiler_build_(std::move(compiler_build)),
      remember_failures_(remember_failures),
      limits_(std::move(limits)),
      flights_(timer, "compiling") {}

void CompileService::GetOrCompile(const storage::CompileJob& job, const cache::SourceText& source,
                                  absl::Duration timeout, Callback done, bool background) {
  cache::CompileKey key = cache::MakeCompileKey(job, source, compiler_build_);
  if (absl::Status remembered = RememberedFailure(key.hash); !remembered.ok()) {
    metrics_->compile_failed->Increment();
    done(remembered);
    return;
  }
  if (Join(key.hash, timeout, std::move(done)))
    pool_->Run([this, key, job, background] { Lead(key, job, background); });
}

void CompileService::CompileAnew(const storage::CompileJob& job, const cache::SourceText& source,
                                 absl::Duration timeout, Callback done, bool background) {
  cache::CompileKey key = cache::MakeCompileKey(job, source, compiler_build_);
  if (Join(key.hash, timeout, std::move(done)))
    pool_->Run([this, key, job, background] { Compile(key, job, background, 0); });
}

// True: the caller leads.
bool CompileService::Join(const std::string& hash, absl::Duration timeout, Callback done) {
  return flights_.Join(hash, timeout,
                       [this, done](const absl::StatusOr<CompiledArtifact>& result, bool led) {
                         if (!result.ok()) {
                           done(result.status());
                           return;
                         }
                         CompiledArtifact mine = *result;
                         if (!led && mine.outcome == CompileOutcome::kCompiled) {
                           mine.outcome = CompileOutcome::kCoalesced;
                           metrics_->compile_coalesced->Increment();
                         }
                         done(std::move(mine));
                       });
}

void CompileService::Lead(const cache::CompileKey& key, const storage::CompileJob& job,
                          bool background) {
  absl::StatusOr<cache::Lookup<storage::ArtifactRecord>> found = store_->FindArtifact(key);
  if (found.ok() && found->found()) {
    absl::Status valid = ValidateArtifact(found->record.artifact(), job);
    if (valid.ok()) {
      metrics_->compile_hit->Increment();
      CompiledArtifact hit;
      hit.key = key;
      hit.artifact =
          std::make_shared<const storage::Artifact>(std::move(*found->record.mutable_artifact()));
      flights_.Finish(key.hash, hit);
      return;
    }
    spdlog::warn("artifact {} of kernel {} is not usable, compiling it again: {}", key.hex(),
                 job.kernel(), std::string(valid.message()));
  } else if (!found.ok()) {
    spdlog::warn("reading artifact {} of kernel {}: {}", key.hex(), job.kernel(),
                 found.status().ToString());
  }
  if (absl::Status failure = StoredFailure(key); !failure.ok()) {
    metrics_->compile_failed->Increment();
    flights_.Finish(key.hash, failure);
    return;
  }
  Compile(key, job, background, 0);
}

void CompileService::Compile(const cache::CompileKey& key, const storage::CompileJob& job,
                             bool background, int attempt) {
  worker::WorkerRequest request;
  request.set_background(background);
  *request.mutable_compile() = job;
  Clock::time_point start = Clock::now();
  backend_->Run(std::move(request), [this, key, job, background, attempt,
                                     start](absl::StatusOr<worker::WorkerResponse> response) {
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (response.ok()) {
      pool_->Run([this, key, job, seconds,
                  response = std::make_shared<worker::WorkerResponse>(*std::move(response))] {
        Keep(key, job, std::move(*response), seconds);
      });
    } else {
      std::string reason = ReasonOf(response.status());
      if (reason == "COMPILER_DIED") metrics_->workers_died->Increment();
      if (reason == "COMPILE_TIMEOUT") metrics_->workers_killed_deadline->Increment();
      pool_->Run([this, key, job, background, attempt, reason, status = response.status()] {
        // Once more: the worker may have been killed from outside. A second death is the kernel's.
        if (attempt == 0 && reason == "COMPILER_DIED")
          Compile(key, job, background, 1);
        else
          // What was starved in the background may be done in time when somebody waits for it.
          Fail(key, job, status, /*remember=*/!background || !MayBeTheLimits(status));
      });
    }
  });
}

void CompileService::Keep(const cache::CompileKey& key, const storage::CompileJob& job,
                          worker::WorkerResponse response, double seconds) {
  if (absl::Status valid = ValidateArtifact(response.artifact(), job); !valid.ok()) {
    Fail(key, job,
         absl::InternalError(absl::StrCat("compiling ", job.kernel(), ": ", valid.message())));
    return;
  }
  compiles_.fetch_add(1, std::memory_order_relaxed);
  metrics_->compile_miss->Increment();
  metrics_->ObserveCompile("total", seconds);
  for (const auto& stage : response.artifact().metadata().stage_times())
    metrics_->ObserveCompile(stage.stage(), stage.seconds());
  storage::ArtifactRecord record;
  record.set_format_version(1);
  record.set_key(key.canonical);
  *record.mutable_artifact() = response.artifact();
  record.set_created_unix_seconds(absl::ToUnixSeconds(absl::Now()));
  // What another compile would cost: at idle priority the duration says how busy others were.
  const double cpu_seconds = response.cpu_seconds() > 0 ? response.cpu_seconds() : seconds;
  record.set_compile_seconds(cpu_seconds);
  // The caller gets the artifact even if the disk does not: the store counts and reports it.
  if (absl::Status put = store_->PutArtifact(key, record); !put.ok())
    spdlog::warn("storing artifact {} of kernel {}: {}", key.hex(), job.kernel(), put.ToString());
  CompiledArtifact compiled;
  compiled.key = key;
  compiled.artifact =
      std::make_shared<const storage::Artifact>(std::move(*response.mutable_artifact()));
  compiled.outcome = CompileOutcome::kCompiled;
  compiled.compile_seconds = seconds;
  compiled.cpu_seconds = cpu_seconds;
  spdlog::info("compiled {} for {} in {:.1f} ms", job.kernel(), job.target(), seconds * 1e3);
  flights_.Finish(key.hash, compiled);
}

void CompileService::Fail(const cache::CompileKey& key, const storage::CompileJob& job,
                          const absl::Status& status, bool remember) {
  if (absl::IsDeadlineExceeded(status))
    metrics_->compile_timeout->Increment();
  else
    metrics_->compile_failed->Increment();
  if (remember && WouldRepeat(status) && remember_failures_ > absl::ZeroDuration()) {
    Remember(key.hash, status, remember_failures_);
    absl::Time now = absl::Now();
    storage::FailureRecord record;
    record.set_kernel(job.kernel());
    record.set_code(static_cast<int>(status.code()));
    record.set_message(std::string(status.message()));
    record.set_detail(SerializedDetailOf(status));
    if (MayBeTheLimits(status)) record.set_limits(limits_);
    record.set_created_unix_seconds(absl::ToUnixSeconds(now));
    record.set_expires_unix_seconds(absl::ToUnixSeconds(now + remember_failures_));
    if (absl::Status put = store_->PutFailure(key, record); !put.ok())
      spdlog::warn("storing the failure of kernel {}: {}", job.kernel(), put.ToString());
  }
  flights_.Finish(key.hash, status);
}

void CompileService::Remember(const std::string& hash, const absl::Status& status,
                              absl::Duration how_long) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (failures_.size() >= kMaxFailures) failures_.clear();
  failures_[hash] = {status, Clock::now() + absl::ToChronoMilliseconds(how_long)};
}

absl::Status CompileService::RememberedFailure(const std::string& hash) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = failures_.find(hash);
  if (found == failures_.end()) return absl::OkStatus();
  if (found->second.until > Clock::now()) return found->second.status;
  failures_.erase(found);
  return absl::OkStatus();
}

absl::Status CompileService::StoredFailure(const cache::CompileKey& key) {
  // Who sets it to nothing wants every compile tried.
  if (remember_failures_ <= absl::ZeroDuration()) return absl::OkStatus();
  int64_t now = absl::ToUnixSeconds(absl::Now());
  absl::StatusOr<cache::Lookup<storage::FailureRecord>> found = store_->FindFailure(key, now);
  if (!found.ok() || !found->found()) return absl::OkStatus();
  const storage::FailureRecord& record = found->record;
  if (!record.limits().empty() && record.limits() != limits_) return absl::OkStatus();
  absl::Status status = StatusWithDetail(static_cast<absl::StatusCode>(record.code()),
                                         record.message(), record.detail());
  if (status.ok()) return status;  // a record that means nothing is no failure
  Remember(key.hash, status, absl::Seconds(record.expires_unix_seconds() - now));
  return status;
}

bool CompileService::IsStored(const storage::CompileJob& job,
                              const cache::SourceText& source) const {
  absl::StatusOr<cache::Lookup<storage::ArtifactRecord>> found =
      store_->FindArtifact(KeyOf(job, source));
  return found.ok() && found->found();
}

void CompileService::CompileUncached(const storage::CompileJob& job, Callback done) {
  worker::WorkerRequest request;
  *request.mutable_compile() = job;
  Clock::time_point start = Clock::now();
  backend_->Run(
      std::move(request), [this, done, start](absl::StatusOr<worker::WorkerResponse> response) {
        if (!response.ok()) {
          done(response.status());
          return;
        }
        compiles_.fetch_add(1, std::memory_order_relaxed);
        CompiledArtifact compiled;
        compiled.artifact =
            std::make_shared<const storage::Artifact>(std::move(*response->mutable_artifact()));
        compiled.outcome = CompileOutcome::kCompiled;
        compiled.compile_seconds = std::chrono::duration<double>(Clock::now() - start).count();
        done(std::move(compiled));
      });
}

}  // namespace tessera::server
