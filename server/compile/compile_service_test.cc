#include "server/compile/compile_service.h"

#include <future>
#include <string>

#include "cache/store/memory/memory_store.h"
#include "gtest/gtest.h"
#include "server/compile/fake_backend.h"
#include "server/compile/module_table.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

storage::CompileJob Job(const std::string& kernel = "add_kernel") {
  storage::CompileJob job;
  job.set_kernel(kernel);
  job.set_target("cpu");
  storage::ParameterSpec* parameter = job.add_parameters();
  parameter->set_name("x");
  parameter->set_type("*fp32");
  return job;
}

class CompileServiceTest : public ::testing::Test {
 protected:
  std::unique_ptr<CompileService> Make(absl::Duration remember = absl::Hours(1)) {
    return std::make_unique<CompileService>(store_.get(), &backend_, &pool_, &timer_, &metrics_,
                                            "build-1", remember);
  }
  std::future<absl::StatusOr<CompiledArtifact>> Ask(
      CompileService* service, absl::Duration timeout = absl::InfiniteDuration(),
      const std::string& closure = "closure") {
    auto answer = std::make_shared<std::promise<absl::StatusOr<CompiledArtifact>>>();
    service->GetOrCompile(Job(), closure, timeout,
                          [answer](absl::StatusOr<CompiledArtifact> result) {
                            answer->set_value(std::move(result));
                          });
    return answer->get_future();
  }

  std::unique_ptr<cache::CacheStore> store_ = cache::NewMemoryStore();
  FakeBackend backend_;
  Metrics metrics_;
  Timer timer_;
  TaskPool pool_{2};
};

TEST_F(CompileServiceTest, CompilesOnceAndServesTheRestFromTheStore) {
  auto service = Make();
  EXPECT_EQ(Ask(service.get()).get()->outcome, CompileOutcome::kCompiled);
  EXPECT_EQ(Ask(service.get()).get()->outcome, CompileOutcome::kHit);
  // As after a restart.
  auto restarted = Make();
  EXPECT_EQ(Ask(restarted.get()).get()->outcome, CompileOutcome::kHit);
  EXPECT_EQ(backend_.jobs().size(), 1u);
}

TEST_F(CompileServiceTest, TellsVariantsAndEditedSourcesApart) {
  auto service = Make();
  EXPECT_EQ(Ask(service.get()).get()->outcome, CompileOutcome::kCompiled);
  EXPECT_EQ(Ask(service.get(), absl::InfiniteDuration(), "edited closure").get()->outcome,
            CompileOutcome::kCompiled);
}

TEST_F(CompileServiceTest, LetsConcurrentRequestsShareOneCompile) {
  auto service = Make();
  backend_.hold = true;
  auto first = Ask(service.get());
  auto second = Ask(service.get());
  pool_.Drain();
  backend_.Release();
  EXPECT_EQ(first.get()->outcome, CompileOutcome::kCompiled);
  EXPECT_EQ(second.get()->outcome, CompileOutcome::kCoalesced);
  EXPECT_EQ(backend_.jobs().size(), 1u);
}

TEST_F(CompileServiceTest, LetsACallersDeadlinePassAndKeepsTheResult) {
  auto service = Make();
  backend_.hold = true;
  auto hurried = Ask(service.get(), absl::Milliseconds(1));
  EXPECT_EQ(hurried.get().status().code(), absl::StatusCode::kDeadlineExceeded);
  pool_.Drain();
  backend_.Release();
  pool_.Drain();
  EXPECT_EQ(Ask(service.get()).get()->outcome, CompileOutcome::kHit);
}

TEST_F(CompileServiceTest, RemembersFailuresThatWouldRepeat) {
  auto service = Make();
  backend_.failures = {absl::InvalidArgumentError("unknown function")};
  EXPECT_EQ(Ask(service.get()).get().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Ask(service.get()).get().status().message(), "unknown function");
  EXPECT_EQ(backend_.jobs().size(), 1u);
}

TEST_F(CompileServiceTest, RemembersFailuresOverARestartWithTheirDetail) {
  backend_.failures = {Error(absl::StatusCode::kInvalidArgument, "SOURCE_DOES_NOT_COMPILE", "no")};
  EXPECT_FALSE(Ask(Make().get()).get().ok());
  absl::Status again = Ask(Make().get()).get().status();
  EXPECT_EQ(again.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(again)->reason(), "SOURCE_DOES_NOT_COMPILE");
  EXPECT_EQ(backend_.jobs().size(), 1u);
}

TEST_F(CompileServiceTest, TriesAgainUnderOtherLimitsWhatMayHaveFailedByThem) {
  auto with = [&](const std::string& limits) {
    return std::make_unique<CompileService>(store_.get(), &backend_, &pool_, &timer_, &metrics_,
                                            "build-1", absl::Hours(1), limits);
  };
  backend_.failures = {absl::DeadlineExceededError("too slow")};
  EXPECT_EQ(Ask(with("1s").get()).get().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Ask(with("1s").get()).get().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(backend_.jobs().size(), 1u);
  EXPECT_TRUE(Ask(with("2s").get()).get().ok());
}

TEST_F(CompileServiceTest, WakesAllWaitersOfAFailedCompileWithTheSameError) {
  auto service = Make();
  backend_.hold = true;
  backend_.failures = {absl::InvalidArgumentError("unknown function")};
  std::vector<std::future<absl::StatusOr<CompiledArtifact>>> waiters;
  for (int i = 0; i < 20; ++i) waiters.push_back(Ask(service.get()));
  pool_.Drain();
  backend_.Release();
  for (auto& waiter : waiters) EXPECT_EQ(waiter.get().status().message(), "unknown function");
  EXPECT_EQ(backend_.jobs().size(), 1u);
}

TEST_F(CompileServiceTest, ForgetsFailuresAfterAWhileAndNeverKeepsPassingOnes) {
  auto service = Make(absl::ZeroDuration());
  backend_.failures = {absl::InvalidArgumentError("unknown function")};
  EXPECT_FALSE(Ask(service.get()).get().ok());
  EXPECT_TRUE(Ask(service.get()).get().ok());
  auto other = Make();
  backend_.failures = {absl::UnavailableError("stopping")};
  EXPECT_FALSE(Ask(other.get(), absl::InfiniteDuration(), "other").get().ok());
  EXPECT_TRUE(Ask(other.get(), absl::InfiniteDuration(), "other").get().ok());
}

TEST_F(CompileServiceTest, TriesOnceMoreWhenTheCompilerDied) {
  auto service = Make();
  absl::Status died = Error(absl::StatusCode::kInternal, "COMPILER_DIED", "signal 9");
  backend_.failures = {died};
  EXPECT_EQ(Ask(service.get()).get()->outcome, CompileOutcome::kCompiled);
  backend_.failures = {died, died};
  EXPECT_EQ(Ask(service.get(), absl::InfiniteDuration(), "crasher").get().status().code(),
            absl::StatusCode::kInternal);
  size_t jobs = backend_.jobs().size();
  EXPECT_EQ(Ask(service.get(), absl::InfiniteDuration(), "crasher").get().status().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(backend_.jobs().size(), jobs);
}

TEST_F(CompileServiceTest, RebuildsAStoredArtifactThatIsNotUsable) {
  auto service = Make();
  cache::CompileKey key = cache::MakeCompileKey(Job(), "closure", "build-1");
  storage::ArtifactRecord damaged;
  damaged.set_format_version(1);
  damaged.set_key(key.canonical);
  damaged.mutable_artifact()->mutable_metadata()->set_kernel("another_kernel");
  ASSERT_TRUE(store_->PutArtifact(key, damaged).ok());
  EXPECT_EQ(Ask(service.get()).get()->outcome, CompileOutcome::kCompiled);
}

class ModuleTableTest : public CompileServiceTest {
 protected:
  std::unique_ptr<ModuleTable> MakeTable(const std::string& build = "build-1",
                                         uint64_t limit = 1000) {
    return std::make_unique<ModuleTable>(store_.get(), &backend_, &pool_, &timer_, build, limit);
  }
  absl::StatusOr<std::shared_ptr<const Module>> Register(ModuleTable* table,
                                                         const std::string& text) {
    storage::SourceFile file;
    file.set_path("add.py");
    file.set_text(text);
    auto answer = std::make_shared<std::promise<absl::StatusOr<std::shared_ptr<const Module>>>>();
    table->Register({file}, absl::InfiniteDuration(),
                    [answer](auto module) { answer->set_value(std::move(module)); });
    return answer->get_future().get();
  }
  absl::StatusOr<std::shared_ptr<const Module>> Load(ModuleTable* table, const std::string& id) {
    auto answer = std::make_shared<std::promise<absl::StatusOr<std::shared_ptr<const Module>>>>();
    table->Load(id, absl::InfiniteDuration(),
                [answer](auto module) { answer->set_value(std::move(module)); });
    return answer->get_future().get();
  }
};

TEST_F(ModuleTableTest, FindsModulesAgainAfterARestart) {
  backend_.descriptions["text"] = DescribeAddKernel();
  auto table = MakeTable();
  auto module = Register(table.get(), "text");
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ((*Register(table.get(), "text"))->id, (*module)->id);
  auto restarted = MakeTable();
  EXPECT_EQ(restarted->FindLoaded((*module)->id), nullptr);
  auto loaded = Load(restarted.get(), (*module)->id);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_NE((*loaded)->FindKernel("add_kernel"), nullptr);
  EXPECT_NE(restarted->FindLoaded((*module)->id), nullptr);
}

TEST_F(ModuleTableTest, DescribesAgainWhatAnotherCompilerDescribed) {
  backend_.descriptions["text"] = DescribeAddKernel();
  auto old_build = MakeTable("build-0");
  std::string id = (*Register(old_build.get(), "text"))->id;
  backend_.descriptions["text"].mutable_kernels(0)->set_closure("another closure");
  auto table = MakeTable();
  EXPECT_EQ((*Load(table.get(), id))->FindKernel("add_kernel")->closure(), "another closure");
}

TEST_F(ModuleTableTest, RefusesWhatDoesNotParseIsUnknownOrTooLarge) {
  auto table = MakeTable();
  EXPECT_EQ(Register(table.get(), "???").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Load(table.get(), "0123").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Register(table.get(), std::string(2000, 'x')).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tessera::server
