// Worker processes that compile, fail, crash and hang; the worker is scripted_worker.cc.
#include "server/compile/worker_pool.h"

#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <string>

#include "gtest/gtest.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

std::string ScriptedWorker() {
  if (const char* path = std::getenv("SCRIPTED_WORKER")) return path;
  std::string path = "server/compile/scripted_worker";
  return std::ifstream(path) ? path : "bazel-bin/" + path;
}

WorkerPoolOptions Options(absl::Duration limit = absl::Seconds(30)) {
  WorkerPoolOptions options;
  options.command = {ScriptedWorker()};
  options.job_limit = limit;
  return options;
}

std::future<absl::StatusOr<worker::WorkerResponse>> Compile(WorkerPool* pool,
                                                            const std::string& kernel) {
  auto answer = std::make_shared<std::promise<absl::StatusOr<worker::WorkerResponse>>>();
  worker::WorkerRequest request;
  request.mutable_compile()->set_kernel(kernel);
  request.mutable_compile()->set_target("cpu");
  pool->Run(std::move(request), [answer](absl::StatusOr<worker::WorkerResponse> r) {
    answer->set_value(std::move(r));
  });
  return answer->get_future();
}

std::string Reason(const absl::Status& status) {
  std::optional<api::ErrorDetail> detail = DetailOf(status);
  return detail ? detail->reason() : "";
}

TEST(WorkerPool, AnswersEveryJobOnce) {
  WorkerPool pool(Options());
  std::vector<std::future<absl::StatusOr<worker::WorkerResponse>>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(Compile(&pool, "ok"));
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_EQ(pool.Workers()[0].compiles, 20u);
}

TEST(WorkerPool, PassesDiagnosticsOn) {
  WorkerPool pool(Options());
  absl::Status status = Compile(&pool, "bad").get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Reason(status), "SOURCE_DOES_NOT_COMPILE");
  EXPECT_EQ(DetailOf(status)->diagnostics(0).line(), 3u);
}

TEST(WorkerPool, SaysWhoKilledTheCompilerAndGoesOn) {
  WorkerPool pool(Options());
  absl::Status status = Compile(&pool, "die").get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Reason(status), "COMPILER_DIED");
  EXPECT_NE(std::string(status.message()).find("signal 6"), std::string::npos) << status;
  EXPECT_NE(std::string(status.message()).find("kernel die"), std::string::npos) << status;
  EXPECT_TRUE(Compile(&pool, "ok").get().ok());
}

TEST(WorkerPool, EndsAJobThatOutlivesItsLimitAndNamesTheStage) {
  WorkerPool pool(Options(absl::Seconds(1)));
  absl::Status status = Compile(&pool, "hang").get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(std::string(status.message()).find("stage 'compile'"), std::string::npos) << status;
  EXPECT_TRUE(Compile(&pool, "ok").get().ok());
}

TEST(WorkerPool, DistrustsAnswersThatMakeNoSense) {
  WorkerPool pool(Options());
  EXPECT_EQ(Compile(&pool, "garbage").get().status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Compile(&pool, "big").get().status().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(Compile(&pool, "ok").get().ok());
}

TEST(WorkerPool, ReplacesAWorkerThatWasKilledWhileIdleAndLosesNoJob) {
  WorkerPool pool(Options());
  ASSERT_TRUE(Compile(&pool, "ok").get().ok());
  const auto worker = static_cast<pid_t>(pool.Workers()[0].pid);
  ASSERT_GT(worker, 1);
  kill(worker, SIGKILL);
  EXPECT_TRUE(Compile(&pool, "ok").get().ok());
}

TEST(WorkerPool, AnswersWhatWaitsWhenItStops) {
  std::future<absl::StatusOr<worker::WorkerResponse>> running, waiting;
  {
    WorkerPool pool(Options());
    running = Compile(&pool, "hang");
    waiting = Compile(&pool, "ok");
  }
  EXPECT_EQ(running.get().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(waiting.get().status().code(), absl::StatusCode::kUnavailable);
}

TEST(WorkerPool, RefusesJobsBeyondItsQueue) {
  WorkerPoolOptions options = Options();
  options.queue_limit = 1;
  WorkerPool pool(options);
  std::future<absl::StatusOr<worker::WorkerResponse>> first = Compile(&pool, "hang");
  // The hanging job may still be queued; of three more at most one finds room.
  std::vector<std::future<absl::StatusOr<worker::WorkerResponse>>> more;
  for (int i = 0; i < 3; ++i) more.push_back(Compile(&pool, "hang"));
  pool.Stop();
  int refused = 0;
  for (auto& answer : more) refused += Reason(answer.get().status()) == "COMPILE_QUEUE_FULL";
  EXPECT_GE(refused, 2);
}

TEST(WorkerPool, FailsClearlyWhenWorkersDoNotStart) {
  WorkerPoolOptions options;
  options.command = {"/nonexistent/worker"};
  WorkerPool pool(options);
  absl::Status status = Compile(&pool, "ok").get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find("/nonexistent/worker"), std::string::npos) << status;
}

}  // namespace
}  // namespace tessera::server
