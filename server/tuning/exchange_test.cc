// Tunings in the formats of Triton and of serving engines: hand-made files in, and ours out.
#include "server/tuning/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace tessera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

storage::KernelDescription Kernel() {
  storage::KernelDescription kernel;
  kernel.set_name("matmul");
  for (const char* name : {"a", "b", "M", "N", "K", "BLOCK_M", "BLOCK_N"})
    kernel.add_parameters()->set_name(name);
  for (const char* name : {"M", "N", "K"}) kernel.add_tuning_key(name);
  for (int block : {64, 128}) {
    storage::TuneConfig* config = kernel.add_configs();
    for (const char* name : {"BLOCK_M", "BLOCK_N"}) {
      config->add_values()->set_name(name);
      config->mutable_values()->rbegin()->mutable_value()->set_integer(block);
    }
    if (block == 128) config->mutable_options()->set_num_warps(8);
  }
  return kernel;
}

// As Triton writes it: two configurations, of which the second does not fit the device.
constexpr char kTriton[] =
    R"({"key": ["16", "512", "1024", "torch.float16", "torch.bfloat16"], "configs_timings": [
  [{"kwargs": {"BLOCK_M": 64, "BLOCK_N": 64}, "num_warps": 4, "num_ctas": 1, "num_stages": 3, "maxnreg": null, "pre_hook": null, "ir_override": null},
   [0.25, 0.24, 0.5]],
  [{"kwargs": {"BLOCK_M": 128, "BLOCK_N": 128}, "num_warps": 8, "num_ctas": 1, "num_stages": 3, "maxnreg": null, "pre_hook": null, "ir_override": null},
   [Infinity, Infinity, Infinity]]]})";

std::string Label(absl::string_view argument, int64_t value) {
  return absl::StrCat(argument == "M" ? "pow2:" : "", value);
}

std::string ErrorOf(const absl::Status& status) { return std::string(status.message()); }

TEST(TritonAutotune, ReadsKeyTypesAndTimes) {
  absl::StatusOr<ForeignTunings> read = ReadTritonAutotune(kTriton, Kernel());
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->tunings.size(), 1u);
  const ForeignTuning& tuning = read->tunings[0];
  EXPECT_EQ(BucketText(tuning, Label), "M=pow2:16 N=512 K=1024 | fp16 bf16");
  ASSERT_EQ(tuning.trials.size(), 2u);
  EXPECT_EQ(tuning.chosen, 0u);
  EXPECT_DOUBLE_EQ(tuning.trials[0].median_seconds(), 0.25e-3);
  EXPECT_DOUBLE_EQ(tuning.trials[0].low_seconds(), 0.24e-3);
  EXPECT_DOUBLE_EQ(tuning.trials[0].high_seconds(), 0.5e-3);
  EXPECT_THAT(tuning.trials[1].failure(), HasSubstr("did not run"));
}

TEST(TritonAutotune, TakesTheKernelsOwnConfigurationWhereDefaultsAreSpeltOut) {
  absl::StatusOr<ForeignTunings> read = ReadTritonAutotune(kTriton, Kernel());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tunings[0].trials[0].config().SerializeAsString(),
            Kernel().configs(0).SerializeAsString());
  EXPECT_EQ(read->tunings[0].trials[1].config().SerializeAsString(),
            Kernel().configs(1).SerializeAsString());
}

TEST(TritonAutotune, SaysWhatIsWrongWithAFile) {
  auto error = [](const std::string& content) {
    absl::StatusOr<ForeignTunings> read = ReadTritonAutotune(content, Kernel());
    EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << content;
    return ErrorOf(read.status());
  };
  EXPECT_THAT(error("not json"), HasSubstr("no JSON"));
  EXPECT_THAT(error("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(error("{\"key\": []}"), HasSubstr("configs_timings"));
  EXPECT_THAT(error(R"({"key": ["1", "2"], "configs_timings": []})"),
              HasSubstr("the key has 2 values"));
  EXPECT_THAT(error(R"({"key": ["1", "2", "torch.float16"], "configs_timings": []})"),
              HasSubstr("fewer values"));
  EXPECT_THAT(error(R"({"key": ["1", "2", "3", "4"], "configs_timings": []})"),
              HasSubstr("'4' is no type"));
  EXPECT_THAT(error(R"({"key": ["1", "2", "3"], "configs_timings": []})"), HasSubstr("empty"));
  EXPECT_THAT(
      error(R"({"key": ["1", "2", "3"], "configs_timings": [[{"kwargs": {"BLOCK_X": 1}}, 1.0]]})"),
      HasSubstr("configs_timings[0]: 'BLOCK_X' is no parameter of matmul"));
  EXPECT_THAT(
      error(R"({"key": ["1", "2", "3"], "configs_timings": [[{"num_warps": "many"}, 1.0]]})"),
      HasSubstr("num_warps"));
  EXPECT_THAT(
      error(R"({"key": ["1", "2", "3"], "configs_timings": [[{"num_warps": 4}, ["fast"]]]})"),
      HasSubstr("is no time"));
  EXPECT_THAT(
      error(R"({"key": ["1", "2", "3"], "configs_timings": [[{"num_warps": 4}, [Infinity]]]})"),
      HasSubstr("no configuration of the file ran"));
  EXPECT_THAT(error(R"({"key": ["1", "2", "3"], "configs_timings": [[{"pre_hook": "f"}, 1.0]]})"),
              HasSubstr("pre_hook is not supported"));
}

storage::TuningRecord Record(const std::string& bucket, const std::string& sample) {
  absl::StatusOr<ForeignTunings> read = ReadTritonAutotune(kTriton, Kernel());
  storage::TuningRecord record;
  record.set_kernel("matmul");
  record.set_device("NVIDIA H200");
  record.set_bucket(bucket);
  record.set_sample(sample);
  for (const auto& trial : read->tunings[0].trials) *record.add_trials() = trial;
  return record;
}

TEST(TritonAutotune, WhatWasReadIsWrittenAgain) {
  std::vector<std::string> notes;
  std::vector<ExchangeFile> files =
      WriteTritonAutotune({Record("M=pow2:16 N=512 K=1024 | fp16 bf16", "")}, Kernel(), &notes);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].name, "matmul.autotune.json");
  EXPECT_THAT(files[0].content, HasSubstr("[Infinity,Infinity,Infinity]"));
  EXPECT_THAT(files[0].content,
              HasSubstr(R"("key":["16","512","1024","torch.float16","torch.bfloat16"])"));
  EXPECT_THAT(
      files[0].content,
      HasSubstr(
          R"({"kwargs":{"BLOCK_M":64,"BLOCK_N":64},"num_warps":4,"num_ctas":1,"num_stages":3,"maxnreg":null,"pre_hook":null,"ir_override":null})"));
  absl::StatusOr<ForeignTunings> again = ReadTritonAutotune(files[0].content, Kernel());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_DOUBLE_EQ(again->tunings[0].trials[0].median_seconds(), 0.25e-3);
  EXPECT_TRUE(notes.empty());
}

TEST(TritonAutotune, WritesTheValuesThatWereMeasuredAndAFolderForEachKey) {
  std::vector<std::string> notes;
  std::vector<ExchangeFile> files =
      WriteTritonAutotune({Record("M=pow2:512 N=512 K=64 | fp16", "M=400 N=512 K=64, lda=64"),
                           Record("M=pow2:16 N=512 K=* | *", "")},
                          Kernel(), &notes);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].name, "M=400,N=512,K=64,fp16/matmul.autotune.json");
  EXPECT_THAT(files[0].content, HasSubstr(R"(["400","512","64","torch.float16"])"));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("not all of its values are known")));
}

constexpr char kEngine[] = R"({"triton_version": "3.6.0",
  "1": {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3},
  "256": {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, "num_stages": 3}})";

TEST(ServingEngineFile, ReadsOneTuningForEachBatchSize) {
  absl::StatusOr<ForeignTunings> read = ReadServingEngineFile(
      "configs/E=8,N=512,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
      kEngine, Kernel(), "");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->tunings.size(), 2u);
  EXPECT_EQ(read->device_name, "NVIDIA_H200");
  EXPECT_EQ(BucketText(read->tunings[0], Label), "M=pow2:1 N=512 K=* | *");
  EXPECT_EQ(BucketText(read->tunings[1], Label), "M=pow2:256 N=512 K=* | *");
  EXPECT_EQ(read->tunings[1].trials[0].config().SerializeAsString(),
            Kernel().configs(1).SerializeAsString());
  EXPECT_THAT(read->notes, ElementsAre(HasSubstr("'E=8'"), HasSubstr("'dtype=fp8_w8a8'"),
                                       HasSubstr("'block_shape=[128,128]'")));
}

TEST(ServingEngineFile, SaysWhatIsWrongWithAFile) {
  auto error = [](const std::string& name, const std::string& content,
                  const std::string& batch = "") {
    absl::StatusOr<ForeignTunings> read = ReadServingEngineFile(name, content, Kernel(), batch);
    EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << content;
    return ErrorOf(read.status());
  };
  const std::string name = "N=512,device_name=NVIDIA_H200.json";
  EXPECT_THAT(error("tuned.json", kEngine), HasSubstr("device_name"));
  EXPECT_THAT(error(name, "{"), HasSubstr("no JSON"));
  EXPECT_THAT(error(name, "{}"), HasSubstr("no batch size"));
  EXPECT_THAT(error(name, R"({"one": {"BLOCK_M": 64}})"), HasSubstr("'one' is no batch size"));
  EXPECT_THAT(error(name, R"({"1": 64})"), HasSubstr("64 is no configuration"));
  EXPECT_THAT(error(name, R"({"1": {"BLOCK_SIZE_M": 64}})"),
              HasSubstr("batch size 1: 'BLOCK_SIZE_M' is no parameter of matmul"));
  EXPECT_THAT(error(name, R"({"1": {"BLOCK_M": [64]}})"), HasSubstr("no value"));
  EXPECT_THAT(error(name, kEngine, "tokens"),
              HasSubstr("'tokens' is not in the key of matmul (M, N, K)"));
}

TEST(ServingEngineFile, WritesAFileForEachLayer) {
  std::vector<std::string> notes;
  storage::TuningRecord large = Record("M=pow2:512 N=512 K=64 | fp16", "M=400 N=512 K=64");
  large.set_chosen(1);
  absl::StatusOr<std::vector<ExchangeFile>> files =
      WriteServingEngineFiles({Record("M=pow2:16 N=512 K=64 | fp16", ""), large,
                               Record("M=pow2:16 N=1024 K=64 | fp16", "")},
                              Kernel(), "", &notes);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].name, "N=1024,K=64,device_name=NVIDIA_H200.json");
  EXPECT_EQ((*files)[1].name, "N=512,K=64,device_name=NVIDIA_H200.json");
  auto json = nlohmann::json::parse((*files)[1].content);
  EXPECT_EQ(json["16"]["BLOCK_M"], 64);
  EXPECT_EQ(json["400"]["num_warps"], 8);
  absl::StatusOr<ForeignTunings> again =
      ReadServingEngineFile((*files)[1].name, (*files)[1].content, Kernel(), "");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->tunings.size(), 2u);
}

TEST(Exchange, DeviceNamesAreTheSameWithBlanksOrUnderscores) {
  EXPECT_TRUE(SameDeviceName("NVIDIA_H200", "NVIDIA H200"));
  EXPECT_FALSE(SameDeviceName("NVIDIA_H200", "NVIDIA H100"));
}

}  // namespace
}  // namespace tessera::server
