#include "server/warmup/record_manifest.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "server/warmup/manifest.h"
#include "server/warmup/write_manifest.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

api::CompileRequest Recipe(int64_t n, const std::string& dtype = "fp32", bool aligned = true) {
  api::CompileRequest recipe;
  recipe.set_module("id");
  recipe.set_kernel("add");
  recipe.set_device("cpu:0");
  api::Argument* x = recipe.add_arguments();
  x->set_name("x");
  x->mutable_tensor()->set_dtype(dtype);
  x->mutable_tensor()->set_byte_offset(aligned ? 0 : 8);
  x->mutable_tensor()->add_shape(n);
  api::Argument* count = recipe.add_arguments();
  count->set_name("n");
  count->set_integer(n);
  api::Argument* block = recipe.add_arguments();
  block->set_name("BLOCK");
  block->mutable_constant()->set_integer(256);
  return recipe;
}

std::vector<ObservedVariant> Traffic(const std::vector<api::CompileRequest>& recipes) {
  ObservedTraffic traffic;
  int i = 0;
  for (const api::CompileRequest& recipe : recipes)
    traffic.Add("key" + std::to_string(i++), std::make_shared<api::CompileRequest>(recipe), 10,
                1000);
  return traffic.Since(0);
}

bool OneFile(const std::string&, api::ManifestModule* to) {
  to->set_path("add.py");
  to->set_source("  def add():\n\tpass  # \"quoted\" \\ & so on: {x}\n\nend\n");
  return true;
}

api::Manifest Read(const std::string& yaml) {
  auto parsed =
      ParseManifest(yaml, "m.yaml", [](const std::string& path) -> absl::StatusOr<std::string> {
        return absl::NotFoundError(path);
      });
  EXPECT_TRUE(parsed.ok()) << parsed.status() << "\n" << yaml;
  return parsed.ok() ? (*parsed)->manifest : api::Manifest();
}

TEST(RecordManifest, GathersVariantsOfAKernelIntoRows) {
  api::Manifest manifest =
      RecordManifest(Traffic({Recipe(16), Recipe(1000), Recipe(5, "fp16")}), {}, OneFile, {true});
  ASSERT_EQ(manifest.modules_size(), 1);
  ASSERT_EQ(manifest.modules(0).kernels_size(), 2);
  const api::ManifestKernel& rows = manifest.modules(0).kernels(0);
  EXPECT_EQ(KernelLine(rows),
            "- {name: add, arguments: {x: \"*fp32:16\"}, constants: {BLOCK: 256}, device: "
            "\"cpu:0\", launches: 20, "
            "shapes: [{n: 16}, {n: 1000}]}");
  EXPECT_EQ(KernelLine(manifest.modules(0).kernels(1)),
            "- {name: add, arguments: {x: \"*fp16:16\", n: 5}, constants: {BLOCK: 256}, device: "
            "\"cpu:0\", launches: 10}");
}

TEST(RecordManifest, AddsTheClassesThatVaryingIntegersWillHave) {
  api::Manifest manifest =
      RecordManifest(Traffic({Recipe(16), Recipe(1000)}), {}, OneFile, {false});
  EXPECT_EQ(manifest.modules(0).kernels(0).shapes_size(), 3) << WriteManifest(manifest);
  // An integer that was of one class alone may well be a constant of the model.
  manifest = RecordManifest(Traffic({Recipe(1000), Recipe(1001)}), {}, OneFile, {false});
  EXPECT_EQ(manifest.modules(0).kernels(0).shapes_size(), 2) << WriteManifest(manifest);
}

TEST(RecordManifest, LeavesOutModulesThatAreNotKnown) {
  EXPECT_EQ(RecordManifest(Traffic({Recipe(1)}), {},
                           [](const std::string&, api::ManifestModule*) { return false; }, {})
                .modules_size(),
            0);
}

TEST(RecordManifest, KeepsTheTuningsOfItsKernels) {
  storage::TuningRecord record;
  record.set_kernel("add");
  record.set_module("id");
  record.set_bucket("n=1000 | fp32");
  record.set_device("a: \"model\"");
  record.set_chosen(1);
  record.add_trials();
  storage::NamedConstant* value = record.add_trials()->mutable_config()->add_values();
  value->set_name("BLOCK");
  value->mutable_value()->set_integer(64);
  record.mutable_trials(1)->mutable_config()->mutable_options()->set_num_warps(8);
  storage::TuningRecord other = record;
  other.set_kernel("sub");
  api::Manifest manifest = RecordManifest(Traffic({Recipe(1000)}), {record, other}, OneFile, {});
  ASSERT_EQ(manifest.tunings_size(), 1);
  EXPECT_EQ(manifest.tunings(0).path(), "add.py");
  EXPECT_EQ(manifest.tunings(0).values(0).value().integer(), 64);
  api::Manifest read = Read(WriteManifest(manifest));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(read, manifest))
      << WriteManifest(manifest);
}

TEST(WriteManifest, IsReadBackAsItWas) {
  api::CompileRequest odd = Recipe(7, "bf16", false);
  odd.mutable_options()->set_num_warps(8);
  (*odd.mutable_options()->mutable_extra())["enable_fp_fusion"] = "false";
  odd.set_config(2);
  auto add = [&](const char* name) {
    odd.add_arguments()->set_name(name);
    return odd.mutable_arguments(odd.arguments_size() - 1);
  };
  api::Argument* big = add("big");
  big->set_integer(5);
  big->set_type("i64");
  add("eps")->set_real(1e-6);
  add("flag")->set_boolean(false);
  add("none")->mutable_constant()->mutable_none();
  add("mode")->mutable_constant()->set_text("say \"relu\"");
  add("fn")->mutable_constant()->set_function("gelu");
  add("dtype")->mutable_constant()->set_dtype("fp16");
  api::Constant* tuple = add("shape")->mutable_constant();
  tuple->mutable_tuple()->add_items()->set_integer(1);
  tuple->mutable_tuple()->add_items()->set_integer(2);
  api::Argument* pair = add("pair");
  pair->mutable_tuple()->add_items()->set_integer(3);
  pair->mutable_tuple()->add_items()->mutable_tensor()->set_dtype("fp16");
  auto* descriptor = add("desc")->mutable_tensor_descriptor();
  descriptor->mutable_base()->set_dtype("fp16");
  descriptor->add_block_shape(64);
  descriptor->add_block_shape(32);
  api::Manifest manifest = RecordManifest(Traffic({odd, Recipe(16), Recipe(17)}), {}, OneFile, {});
  manifest.set_comment("from: here # there");
  api::Manifest read = Read(WriteManifest(manifest));
  std::string difference;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.set_message_field_comparison(google::protobuf::util::MessageDifferencer::EQUIVALENT);
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(manifest, read)) << difference << "\n" << WriteManifest(manifest);
}

TEST(WriteManifest, KeepsEveryKindOfSourceText) {
  for (const char* text :
       {"a\n", "a", "a\n\n", "\n", "a\n  \n", "\na\n", "\n\n  a\n", "", "  a\n b\n", "a\r\nb\n",
        "tab\there\n", "# \xc3\xa9\xe2\x82\xac\n", "x: 'y'\n\n\nz\n", "a  \n \nb\n"}) {
    api::Manifest manifest;
    api::ManifestModule* module = manifest.add_modules();
    module->add_kernels()->set_name("k");
    api::SourceFile* file = module->add_files();
    file->set_path("a.py");
    file->set_text(text);
    file = module->add_files();
    file->set_path("b.py");
    file->set_text("b\n");
    if (std::string(text).empty()) continue;  // a file without text is read from its path
    std::string yaml = WriteManifest(manifest);
    EXPECT_EQ(Read(yaml).modules(0).files(0).text(), text) << yaml;
  }
}

TEST(ObservedTraffic, OutlivesARestart) {
  std::string path =
      std::string(std::getenv("TEST_TMPDIR") ? std::getenv("TEST_TMPDIR") : "/tmp") + "/traffic.pb";
  ObservedTraffic traffic;
  traffic.Add("key", std::make_shared<api::CompileRequest>(Recipe(16)), 3, 1000);
  traffic.Add("key", std::make_shared<api::CompileRequest>(Recipe(32)), 4, 2000);
  ASSERT_TRUE(traffic.WriteFile(path).ok());
  ObservedTraffic again;
  ASSERT_TRUE(again.ReadFile(path).ok());
  std::vector<ObservedVariant> variants = again.Since(1500);
  ASSERT_EQ(variants.size(), 1u);
  EXPECT_EQ(variants[0].launches, 7u);
  EXPECT_EQ(variants[0].recipe->arguments(1).integer(), 32);
  EXPECT_TRUE(again.Since(2500).empty());
  EXPECT_TRUE(ObservedTraffic().ReadFile(path + ".none").ok());
}

TEST(ObservedTraffic, ForgetsWhatWasLaunchedLongestAgo) {
  ObservedTraffic traffic(16);
  for (int i = 0; i < 100; ++i)
    traffic.Add("key" + std::to_string(i), std::make_shared<api::CompileRequest>(Recipe(i)), 1, i);
  EXPECT_LE(traffic.Since(0).size(), 16u);
  EXPECT_EQ(traffic.Since(99).size(), 1u);
  EXPECT_TRUE(traffic.Since(0).back().last_unix_seconds > 50);
}

}  // namespace
}  // namespace tessera::server
