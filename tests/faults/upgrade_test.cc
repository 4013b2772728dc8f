// Old and new versions on one state directory, one after the other, as deploy/README.md tells operators to do.
//
// testdata/state_0_1_0.tar.xz is what a daemon of an earlier build left: plus with C = 1, 2, 3 and BLOCK = 128 launched for
// n = 1000, doubled tuned for n = 1000 (of its configurations, BLOCK = 128 was chosen) and launched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "cache/store/rocksdb/rocksdb_store.h"
#include "cache/store/rocksdb/schema_one.h"
#include "tests/support/daemon_fixture.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class UpgradeTest : public DaemonFixture {
 protected:
  UpgradeTest() {
    const char* folder = std::getenv("TEST_TMPDIR");
    folder_ = absl::StrCat(folder != nullptr ? folder : "/tmp", "/upgrade.XXXXXX");
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    state_ = folder_ + "/state";
  }
  ~UpgradeTest() override {
    Stop();
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  void Stop() {
    client_.reset();
    daemon_.reset();
  }
  void UnpackOldState() {
    const std::string command =
        absl::StrCat("tar -xJf ", Runfile("tests/faults/testdata/state_0_1_0.tar.xz"), " -C ", folder_);
    ASSERT_EQ(std::system(command.c_str()), 0);
  }

  // "hit", "compiled", or what went wrong. The module's path is part of its identity.
  std::string Launch(const std::string& kernel, int c, int* config = nullptr) {
    const std::string module = RegisterText(ReadText(Runfile("tests/faults/testdata/upgrade.py")), "upgrade.py");
    auto buffer = Allocate(8192);
    float* x = buffer->as<float>();
    for (int i = 0; i < 1000; ++i) x[i] = static_cast<float>(i);
    v1::LaunchRequest launch;
    launch.set_module(module);
    launch.set_kernel(kernel);
    launch.add_grid_expressions("cdiv(n, BLOCK)");
    *launch.add_arguments() = TensorArgument("x_ptr", *buffer, DType::kFp32, {1000});
    *launch.add_arguments() = TensorArgument("out_ptr", *buffer, DType::kFp32, {1000}, 4096);
    *launch.add_arguments() = IntArgument("n", 1000);
    if (kernel == "plus") {
      *launch.add_arguments() = ConstexprArgument("C", IntConstant(c));
      *launch.add_arguments() = ConstexprArgument("BLOCK", IntConstant(128));
    }
    auto response = client_->Launch(launch, absl::Seconds(60));
    if (!response.ok()) return response.status().ToString();
    for (int i = 0; i < 1000; ++i) {
      const float want = kernel == "plus" ? static_cast<float>(i + c) : 2.0f * static_cast<float>(i);
      if (x[1024 + i] != want) return absl::StrCat("wrong result at ", i);
    }
    if (config != nullptr) *config = response->config();
    return response->outcome();
  }

  // What lies there while no daemon runs, by family and key.
  std::map<std::string, std::string> Stored() const {
    std::map<std::string, std::string> stored;
    auto store = cache::OpenRocksdbStore(state_);
    EXPECT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->Stats().state, "ok");
    EXPECT_THAT(*(*store)->Verify(nullptr), IsEmpty());
    for (const char* family : {"modules", "artifacts", "tunings"}) {
      const auto keep = [&](absl::string_view key, absl::string_view payload) {
        stored[absl::StrCat(family, " ", key)] = std::string(payload);
        return true;
      };
      EXPECT_TRUE((*store)->ForEach(family, "", keep).ok());
    }
    return stored;
  }
  std::map<std::string, std::string> FilesOf(const std::string& folder) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) files[entry.path().string()] = ReadText(entry.path().string());
    return files;
  }

  std::string folder_, state_;
};

TEST_F(UpgradeTest, ANewBuildTakesOverTheStateOfAnOldOneAndLeavesItForARollback) {
  UnpackOldState();
  const std::map<std::string, std::string> before = Stored();
  ASSERT_EQ(before.size(), 1u + 6u + 1u);
  StartDaemon(state_);
  // Another compiler made the old artifacts: compiled anew, beside them.
  for (int c = 1; c <= 3; ++c) EXPECT_EQ(Launch("plus", c), "compiled");
  // The choice of configuration is kept: by number where this is the model that it was measured on.
  grpc::ClientContext context;
  v1::ListTuningsResponse tunings;
  ASSERT_TRUE(client_->tuning().ListTunings(&context, {}, &tunings).ok());
  ASSERT_EQ(tunings.tunings_size(), 1);
  EXPECT_EQ(tunings.tunings(0).kernel(), "doubled");
  int config = 0;
  EXPECT_EQ(Launch("doubled", 0, &config), "compiled");
  const v1::GetStatusResponse status = Status();
  if (status.devices(0).description() == tunings.tunings(0).device()) EXPECT_EQ(config, 3);
  // What the old one's clients launched still makes a manifest.
  grpc::ClientContext recording;
  v1::RecordManifestResponse manifest;
  ASSERT_TRUE(client_->warmup().RecordManifest(&recording, {}, &manifest).ok());
  EXPECT_GE(manifest.kernels(), 2u);
  EXPECT_GE(manifest.launches(), 8u);
  Stop();
  // The rollback: the old daemon finds every entry of its own as it was.
  std::map<std::string, std::string> after = Stored();
  for (const auto& [key, payload] : before) {
    ASSERT_TRUE(after.count(key) == 1) << "an entry of the old build is gone";
    // Descriptions of modules and tunings belong to both builds: the new one writes them anew.
    if (key.rfind("artifacts", 0) == 0) EXPECT_EQ(after[key], payload);
  }
  EXPECT_GE(after.size(), before.size() + 4);
  // And forward again: nothing is compiled twice.
  StartDaemon(state_);
  for (int c = 1; c <= 3; ++c) EXPECT_EQ(Launch("plus", c), "hit");
  EXPECT_EQ(Status().compiles(), 0u);
}

TEST_F(UpgradeTest, TheDatabaseOfThePreviousSchemaIsMigratedAndServesWithoutACompile) {
  StartDaemon(state_);
  for (int c = 1; c <= 3; ++c) ASSERT_EQ(Launch("plus", c), "compiled");
  Stop();
  const std::map<std::string, std::string> before = Stored();
  cache::MakeSchemaOne(state_);
  StartDaemon(state_);
  for (int c = 1; c <= 3; ++c) EXPECT_EQ(Launch("plus", c), "hit");
  EXPECT_EQ(Status().compiles(), 0u);
  EXPECT_THAT(ReadText(daemon_->log_path()), HasSubstr("from schema 1"));
  Stop();
  EXPECT_EQ(Stored(), before);
}

// This daemon is the older one here: the directory looks as one of a version to come has left it.
TEST_F(UpgradeTest, TheDatabaseOfANewerSchemaIsRefusedAndLeftAsItIs) {
  StartDaemon(state_);
  ASSERT_EQ(Launch("plus", 1), "compiled");
  Stop();
  fs::rename(state_ + "/db.v2", state_ + "/db.v3");
  const std::map<std::string, std::string> before = FilesOf(state_ + "/db.v3");
  PrivateDaemonOptions options;
  options.binary = Runfile("server/tesserad");
  options.state_dir = state_;
  const auto refused = PrivateDaemon::Start(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("was written by a newer Tessera"), HasSubstr("choose another state directory")));
  EXPECT_EQ(FilesOf(state_ + "/db.v3"), before);
  EXPECT_FALSE(fs::exists(state_ + "/db.v2"));
  // What the message advises works.
  StartDaemon(folder_ + "/other");
  EXPECT_EQ(Launch("plus", 1), "compiled");
  // The newer version comes back.
  fs::rename(state_ + "/db.v3", state_ + "/db.v2");
  StartDaemon(state_);
  EXPECT_EQ(Launch("plus", 1), "hit");
}

}  // namespace
}  // namespace tessera
