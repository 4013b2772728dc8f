#include "server/tuning/tuning_table.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "cache/store/memory/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/compile/fake_backend.h"

namespace tessera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kBlocks[] = {64, 128, 256};

// add_kernel with three configurations, `n` in the key and `stride` outside.
std::shared_ptr<KernelModel> ModelTuned() {
  auto module = std::make_shared<Module>();
  module->id = "id";
  *module->record.mutable_description() = DescribeAddKernel();
  storage::KernelDescription* kernel = module->record.mutable_description()->mutable_kernels(0);
  kernel->add_parameters()->set_name("stride");
  kernel->add_tuning_key("n");
  for (int block : kBlocks) {
    storage::NamedConstant* value = kernel->add_configs()->add_values();
    value->set_name("BLOCK");
    value->mutable_value()->set_integer(block);
  }
  return *KernelModel::Create(module, "add_kernel");
}

class TuningTableTest : public ::testing::Test {
 protected:
  TuningTableTest() {
    device_ = devices_.Add({"cpu:0", "cpu", "features", "model", 1},
                           [] { return absl::UnavailableError("nothing runs here"); });
    other_device_ = devices_.Add({"cpu:1", "cpu", "features", "other model", 1},
                                 [] { return absl::UnavailableError("nothing runs here"); });
    SetPolicy(TuningPolicy::Kind::kBucketed);
  }

  void SetPolicy(TuningPolicy::Kind kind) {
    TuningPolicy policy;
    policy.kind = kind;
    policies_.Set("", policy);
  }

  // A record of all configurations, the one with `block` chosen.
  void Put(const std::string& bucket, int block, bool split = false, bool pinned = false) {
    storage::TuningRecord record;
    record.set_kernel("add_kernel");
    record.set_module("id");
    record.set_source(SourceDigest(kernel_->description()));
    record.set_bucket(bucket);
    record.set_device("model");
    record.set_split(split);
    record.set_pinned(pinned);
    for (const KernelModel::Config& config : kernel_->configs()) {
      if (config.config.values(0).value().integer() == block)
        record.set_chosen(static_cast<uint32_t>(record.trials_size()));
      *record.add_trials()->mutable_config() = config.config;
    }
    EXPECT_TRUE(table_.Put(record).ok());
  }

  // The block that a launch would run with; 0: nothing is known.
  int BlockFor(int64_t n, const std::string& dtype = "float32", int64_t stride = 1,
               const Device* device = nullptr) {
    api::LaunchRequest request;
    for (const char* name : {"x", "y"}) {
      api::Argument* argument = request.add_arguments();
      argument->set_name(name);
      argument->mutable_tensor()->set_dtype(dtype);
      argument->mutable_tensor()->add_shape(n);
    }
    for (auto [name, value] : {std::pair("n", n), std::pair("stride", stride)}) {
      api::Argument* argument = request.add_arguments();
      argument->set_name(name);
      argument->set_integer(value);
    }
    BoundLaunch bound;
    EXPECT_TRUE(BindArguments(request.arguments(), *kernel_, nullptr, &bound).ok());
    const ConfigChoices::Choice choice =
        table_.Find(*kernel_, bound, &request, device == nullptr ? *device_ : *device);
    if (choice.config == nullptr) return 0;
    EXPECT_EQ(kBlocks[choice.index - 1], choice.config->config.values(0).value().integer());
    return kBlocks[choice.index - 1];
  }

  std::shared_ptr<TuningSite> SiteOf(const std::string& bucket) {
    for (const std::shared_ptr<TuningSite>& site : table_.Sites("add_kernel"))
      if (site->bucket == bucket && site->device == "cpu:0") return site;
    return nullptr;
  }
  std::vector<std::string> Warnings() {
    std::vector<std::string> warnings;
    for (const std::shared_ptr<TuningSite>& site : table_.Sites(""))
      for (const std::string& warning : site->decision().warnings) warnings.push_back(warning);
    return warnings;
  }

  const std::shared_ptr<KernelModel> kernel_ = ModelTuned();
  DeviceTable devices_;
  Device *device_ = nullptr, *other_device_ = nullptr;
  std::unique_ptr<cache::CacheStore> store_ = cache::NewMemoryStore();
  TuningPolicies policies_{TuningPolicy()};
  TuningTable table_{store_.get(), &policies_};
};

TEST_F(TuningTableTest, KnowsNothingBeforeAnythingIsMeasured) {
  EXPECT_EQ(BlockFor(100), 0);
  EXPECT_EQ(SiteOf("n=pow2:128 | fp32 fp32")->choice("").from, "default");
}

TEST_F(TuningTableTest, ARecordOfExactValuesGoesBeforeThatOfTheirBucket) {
  Put("n=pow2:128 | fp32 fp32", 64);
  Put("n=100 | fp32 fp32", 256, /*split=*/true);
  EXPECT_EQ(BlockFor(100), 256);
  EXPECT_EQ(BlockFor(101), 64);
  EXPECT_EQ(BlockFor(128), 64);
  EXPECT_EQ(SiteOf("n=pow2:128 | fp32 fp32")->choice("n=100 | fp32 fp32").index, 3);
  EXPECT_EQ(SiteOf("n=pow2:128 | fp32 fp32")->choice("").index, 1);
  // Taken back, the bucket's holds for all of it.
  EXPECT_EQ(*table_.Forget("", "", "n=100 | fp32 fp32"), 1u);
  EXPECT_EQ(BlockFor(100), 64);
}

TEST_F(TuningTableTest, ARecordOfExactValuesIsForLaunchesOfTheseAlone) {
  Put("n=100 | fp32 fp32", 256, /*split=*/true);
  EXPECT_EQ(BlockFor(100), 256) << "even where the bucket has none";
  EXPECT_EQ(BlockFor(101), 0);
  EXPECT_EQ(BlockFor(100, "float16"), 0);
  EXPECT_EQ(BlockFor(100, "float32", 1, other_device_), 0);
}

TEST_F(TuningTableTest, ARecordOfExactValuesTakesEffectInTheMiddleOfTraffic) {
  Put("n=pow2:128 | fp32 fp32", 64);
  EXPECT_EQ(BlockFor(100), 64);
  Put("n=100 | fp32 fp32", 128, /*split=*/true);
  EXPECT_EQ(BlockFor(100), 128);
  EXPECT_EQ(BlockFor(99), 64);
}

TEST_F(TuningTableTest, RecordsAreReadFromTheStore) {
  Put("n=pow2:128 | fp32 fp32", 64);
  Put("n=100 | fp32 fp32", 256, /*split=*/true);
  TuningTable again(store_.get(), &policies_);
  ASSERT_TRUE(again.Load().ok());
  const std::string source = SourceDigest(kernel_->description());
  EXPECT_THAT(again.RecordsOf("add_kernel", source, "model"), SizeIs(2));
  EXPECT_TRUE(again.Record("add_kernel", source, "n=100 | fp32 fp32", "model")->split());
  EXPECT_FALSE(again.Record("add_kernel", source, "n=pow2:128 | fp32 fp32", "model")->split());
  EXPECT_FALSE(again.Record("add_kernel", source, "n=100 | fp32 fp32", "other model"));
}

TEST_F(TuningTableTest, ABucketThatIsNotTunedTakesTheChoiceOfTheNearest) {
  Put("n=pow2:128 | fp32 fp32", 64);
  Put("n=pow2:4096 | fp32 fp32", 256);
  EXPECT_EQ(BlockFor(300), 64);    // 512: a factor of 4 from one, of 8 from the other
  EXPECT_EQ(BlockFor(1000), 256);  // 1024: of 8, of 4
  EXPECT_EQ(SiteOf("n=pow2:1024 | fp32 fp32")->choice("").from,
            "nearest bucket n=pow2:4096 | fp32 fp32");
  EXPECT_EQ(BlockFor(32768), 256);
  EXPECT_EQ(BlockFor(65536), 0) << "a factor of 16 is too far";
  EXPECT_EQ(BlockFor(1000, "float16"), 0) << "other types say nothing";
  // Its own, once it is there.
  Put("n=pow2:1024 | fp32 fp32", 128);
  EXPECT_EQ(BlockFor(1000), 128);
  EXPECT_EQ(SiteOf("n=pow2:1024 | fp32 fp32")->choice("").from, "tuned");
}

TEST_F(TuningTableTest, FixedKernelsHaveWhatIsPinnedAlone) {
  Put("n=pow2:128 | fp32 fp32", 64);
  Put("n=100 | fp32 fp32", 256, /*split=*/true, /*pinned=*/true);
  SetPolicy(TuningPolicy::Kind::kFixed);
  EXPECT_EQ(BlockFor(101), 0);
  EXPECT_EQ(BlockFor(100), 256);
}

TEST_F(TuningTableTest, SitesTellValuesOfTheKeyAndOutsideApart) {
  for (int i = 0; i < 3; ++i) BlockFor(100, "float32", 7);
  BlockFor(100, "float32", 8);
  for (int i = 0; i < 2; ++i) BlockFor(120, "float32", 7);
  std::vector<std::string> samples;
  for (const TuningSite::Sample& sample : SiteOf("n=pow2:128 | fp32 fp32")->Samples()) {
    samples.push_back(absl::StrCat(sample.calls, " x ", sample.exact, ", ", sample.others));
    EXPECT_NE(sample.request, nullptr);
  }
  EXPECT_THAT(samples,
              ElementsAre("3 x n=100 | fp32 fp32, stride=7", "2 x n=120 | fp32 fp32, stride=7",
                          "1 x n=100 | fp32 fp32, stride=8"));
}

TEST_F(TuningTableTest, AnArgumentThatMakesMoreBucketsThanAnyoneWantsIsNamed) {
  SetPolicy(TuningPolicy::Kind::kExhaustive);
  for (int n = 1; n < 64; ++n) BlockFor(n);
  EXPECT_THAT(Warnings(), SizeIs(0));
  BlockFor(64);
  EXPECT_THAT(Warnings(),
              ElementsAre(HasSubstr("key argument 'n' of add_kernel took 64 values so far")));
  for (int n = 1; n <= 64; ++n) BlockFor(n);
  EXPECT_THAT(Warnings(), SizeIs(1)) << "said once";
}

TEST_F(TuningTableTest, ManyBucketsOfFewValuesAreNoReasonToWarn) {
  // By powers of two, on two devices and with two types.
  for (int64_t n = 1; n < int64_t{1} << 40; n += 1 + n / 2)
    for (const char* dtype : {"float32", "float16"})
      for (const Device* device : {device_, other_device_}) BlockFor(n, dtype, 1, device);
  EXPECT_GT(table_.Sites("add_kernel").size(), 128u);
  EXPECT_THAT(Warnings(), SizeIs(0));
}

TEST(SharesVariants, WhereNoFactThatCodeReliesOnDiffers) {
  const char m16[] = "M=16 N=1000 | fp16 fp16";
  EXPECT_TRUE(SharesVariants(m16, m16));
  EXPECT_TRUE(SharesVariants(m16, "M=128 N=1000 | fp16 fp16"));
  EXPECT_TRUE(SharesVariants(m16, "M=16 N=1001 | fp16 fp16"));
  EXPECT_FALSE(SharesVariants(m16, "M=17 N=1000 | fp16 fp16"));
  EXPECT_FALSE(SharesVariants(m16, "M=16 N=1 | fp16 fp16"));
  EXPECT_FALSE(SharesVariants(m16, "M=16 N=1000 | fp16 bf16"));
  EXPECT_FALSE(SharesVariants(m16, "M=16 K=1000 | fp16 fp16"));
  EXPECT_FALSE(SharesVariants(m16, "M=16 | fp16 fp16"));
  EXPECT_FALSE(SharesVariants("M=16 mode=a | fp16", "M=16 mode=b | fp16"));
}

}  // namespace
}  // namespace tessera::server
