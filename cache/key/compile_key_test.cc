#include "cache/key/compile_key.h"

#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kClosure[] = "def k(x, n, BLOCK):\n  body\n";
constexpr char kBuild[] = "build-1";

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

storage::CompileJob Job() {
  return Parsed<storage::CompileJob>(R"(
    files { path: "/home/a/k.py" text: "# comment\ndef k(x, n, BLOCK): body" }
    kernel: "k"
    parameters { name: "x" type: "*fp16" divisibility: 16 }
    parameters { name: "n" type: "i32" }
    parameters { name: "BLOCK" constant { integer: 128 } }
    target: "cpu"
    cpu_features: "znver4 +avx512f")");
}

CompileKey Key(const storage::CompileJob& job) { return MakeCompileKey(job, kClosure, kBuild); }

// What `change` makes of the job: does it share the entry of the unchanged one?
bool SharesEntry(const std::function<void(storage::CompileJob*)>& change) {
  storage::CompileJob changed = Job();
  change(&changed);
  const CompileKey before = Key(Job()), after = Key(changed);
  EXPECT_EQ(before.canonical == after.canonical, before.hash == after.hash);
  return before.hash == after.hash;
}

// A stored key must stay readable for ever: if this fails, kKeyVersion was forgotten or a cache would go stale.
TEST(CompileKey, HasTheBytesThatItAlwaysHad) {
  EXPECT_EQ(Key(Job()).canonical,
            "version=1:1\n"
            "compiler=7:build-1\n"
            "target=3:cpu\n"
            "cpu_features=15:znver4 +avx512f\n"
            "kernel=1:k\n"
            "parameter=37:name=1:x\ntype=5:*fp16\ndivisible=2:16\n\n"
            "parameter=20:name=1:n\ntype=3:i32\n\n"
            "parameter=36:name=5:BLOCK\nconstant=10:int=3:128\n\n\n"
            "option=27:name=5:debug\nvalue=5:false\n\n"
            "option=49:name=27:default_dot_input_precision\nvalue=4:tf32\n\n"
            "option=38:name=16:enable_fp_fusion\nvalue=4:true\n\n"
            "option=46:name=23:launch_cooperative_grid\nvalue=5:false\n\n"
            "option=33:name=10:launch_pdl\nvalue=5:false\n\n"
            "option=26:name=8:num_ctas\nvalue=1:1\n\n"
            "option=29:name=10:num_stages\nvalue=1:3\n\n"
            "option=27:name=9:num_warps\nvalue=1:4\n\n"
            "option=39:name=17:sanitize_overflow\nvalue=4:true\n\n"
            "closure=27:def k(x, n, BLOCK):\n  body\n\n");
  EXPECT_EQ(Key(Job()).hex(), "1913ef8451d2e9b24aa418812301aa110de220e5c1850bd9c418c929426ab575");
  EXPECT_EQ(Key(Job()).hash.size(), 32u);
}

TEST(CompileKey, IgnoresPathsCommentsAndLineShifts) {
  EXPECT_TRUE(SharesEntry([](auto* job) { job->mutable_files(0)->set_path("/elsewhere/m.py"); }));
  EXPECT_TRUE(SharesEntry([](auto* job) { job->mutable_files(0)->set_text("\n\n\n# other\ndef k(x, n, BLOCK): body"); }));
}

TEST(CompileKey, ChangesWithTheClosure) {
  // An edited callee or global constant is part of the closure.
  EXPECT_NE(Key(Job()).hash, MakeCompileKey(Job(), "def k(x, n, BLOCK):\n  other\n", kBuild).hash);
}

TEST(CompileKey, ChangesWithTheCompiler) {
  EXPECT_NE(Key(Job()).hash, MakeCompileKey(Job(), kClosure, "build-2").hash);
}

TEST(CompileKey, IgnoresDefaultsSpelledOut) {
  EXPECT_TRUE(SharesEntry([](auto* job) { job->mutable_options()->set_num_warps(4); }));
  EXPECT_TRUE(SharesEntry([](auto* job) { job->mutable_options()->set_num_stages(3); }));
  EXPECT_TRUE(SharesEntry([](auto* job) { job->mutable_options()->set_num_ctas(1); }));
  EXPECT_TRUE(SharesEntry([](auto* job) { (*job->mutable_options()->mutable_extra())["enable_fp_fusion"] = "True"; }));
  EXPECT_TRUE(SharesEntry([](auto* job) { (*job->mutable_options()->mutable_extra())["debug"] = "0"; }));
  EXPECT_TRUE(SharesEntry(
      [](auto* job) { (*job->mutable_options()->mutable_extra())["default_dot_input_precision"] = "tf32"; }));
  EXPECT_TRUE(SharesEntry([](auto* job) { (*job->mutable_settings())["TRITON_F32_DEFAULT"] = ""; }));
  EXPECT_TRUE(SharesEntry([](auto* job) { (*job->mutable_settings())["TRITON_F32_DEFAULT"] = "tf32"; }));
  EXPECT_TRUE(SharesEntry([](auto* job) { (*job->mutable_settings())["SOMETHING_UNSET"] = ""; }));
  EXPECT_TRUE(SharesEntry([](auto* job) { job->mutable_parameters(1)->set_divisibility(1); }));
}

TEST(CompileKey, HoldsEveryCodeChangingOption) {
  const std::vector<std::function<void(storage::CompileJob*)>> changes = {
      [](auto* job) { job->mutable_options()->set_num_warps(8); },
      [](auto* job) { job->mutable_options()->set_num_stages(2); },
      [](auto* job) { job->mutable_options()->set_num_ctas(2); },
      [](auto* job) { job->mutable_options()->set_maxnreg(128); },
      [](auto* job) { (*job->mutable_options()->mutable_extra())["enable_fp_fusion"] = "false"; },
      [](auto* job) { (*job->mutable_options()->mutable_extra())["launch_pdl"] = "true"; },
      [](auto* job) { (*job->mutable_options()->mutable_extra())["sanitize_overflow"] = "false"; },
      [](auto* job) { (*job->mutable_options()->mutable_extra())["default_dot_input_precision"] = "ieee"; },
      [](auto* job) { (*job->mutable_options()->mutable_extra())["an_option_of_tomorrow"] = "1"; },
      [](auto* job) { (*job->mutable_settings())["TRITON_F32_DEFAULT"] = "ieee"; },
      [](auto* job) { (*job->mutable_settings())["TRITON_DEBUG"] = "1"; },
      [](auto* job) { job->add_emit("llvm"); },
      [](auto* job) { (*job->mutable_override_stages())["llvm"] = "define"; },
  };
  std::set<std::string> hashes = {Key(Job()).hash};
  for (const auto& change : changes) {
    storage::CompileJob job = Job();
    change(&job);
    hashes.insert(Key(job).hash);
  }
  EXPECT_EQ(hashes.size(), changes.size() + 1);
}

TEST(CompileKey, KeepsAnOptionApartFromTheSettingThatItOverrides) {
  storage::CompileJob both = Job(), setting = Job();
  (*setting.mutable_settings())["TRITON_F32_DEFAULT"] = "ieee";
  both = setting;
  (*both.mutable_options()->mutable_extra())["default_dot_input_precision"] = "tf32";
  EXPECT_NE(Key(both).hash, Key(setting).hash);
  EXPECT_NE(Key(both).hash, Key(Job()).hash);
}

TEST(CompileKey, ChangesWithEverySpecialisation) {
  EXPECT_FALSE(SharesEntry([](auto* job) { job->mutable_parameters(1)->set_equals_one(true); }));
  EXPECT_FALSE(SharesEntry([](auto* job) { job->mutable_parameters(1)->set_divisibility(16); }));
  EXPECT_FALSE(SharesEntry([](auto* job) { job->mutable_parameters(0)->set_divisibility(8); }));
  EXPECT_FALSE(SharesEntry([](auto* job) { job->mutable_parameters(0)->set_divisibility(0); }));
  EXPECT_FALSE(SharesEntry([](auto* job) { job->mutable_parameters(0)->set_type("*fp32"); }));
  EXPECT_FALSE(SharesEntry([](auto* job) { job->mutable_parameters(2)->mutable_constant()->set_integer(256); }));
  EXPECT_FALSE(SharesEntry([](auto* job) { job->mutable_parameters(1)->set_name("m"); }));
  EXPECT_FALSE(SharesEntry([](auto* job) { job->mutable_parameters()->SwapElements(0, 1); }));
  EXPECT_FALSE(SharesEntry([](auto* job) { job->mutable_parameters(1)->mutable_constant()->mutable_none(); }));
}

TEST(CompileKey, TellsApartConstantsThatLookAlike) {
  std::set<std::string> hashes;
  const std::vector<std::string> constants = {
      "none {}", "boolean: true", "integer: 1", "real: 1", "text: '1'", "dtype: '1'", "function: '1'",
      "tuple { items { integer: 1 } }", "tuple { items { tuple { items { integer: 1 } } } }", "tuple {}",
      "real: 0.0", "real: -0.0", "real: nan", "real: inf", "integer: 0", "boolean: false", "text: ''",
      "unsigned_integer: 9223372036854775808", "integer: -9223372036854775808", "real: 9223372036854775808"};
  for (const std::string& constant : constants) {
    storage::CompileJob job = Job();
    *job.mutable_parameters(2)->mutable_constant() = Parsed<storage::ConstantValue>(constant);
    hashes.insert(Key(job).hash);
  }
  EXPECT_EQ(hashes.size(), constants.size());
}

TEST(CompileKey, TellsApartDescriptorsAndTuples) {
  std::set<std::string> hashes;
  const std::vector<std::string> specs = {
      "name: 'x' tensor_descriptor { element_type: 'fp16' block_shape: [64, 32] }",
      "name: 'x' tensor_descriptor { element_type: 'fp16' block_shape: [32, 64] }",
      "name: 'x' tensor_descriptor { element_type: 'bf16' block_shape: [64, 32] }",
      "name: 'x' tensor_descriptor { element_type: 'fp16' block_shape: [64, 32] nan_padding: true }",
      "name: 'x' tuple { items { type: 'i32' } items { type: 'i32' } }",
      "name: 'x' tuple { items { type: 'i32' } items { type: 'i32' divisibility: 16 } }",
      "name: 'x' tuple { items { tuple { items { type: 'i32' } items { type: 'i32' } } } }"};
  for (const std::string& spec : specs) {
    storage::CompileJob job = Job();
    *job.mutable_parameters(0) = Parsed<storage::ParameterSpec>(spec);
    hashes.insert(Key(job).hash);
  }
  EXPECT_EQ(hashes.size(), specs.size());
}

TEST(CompileKey, NamesTheExactCpuForTheCpuTargetOnly) {
  EXPECT_FALSE(SharesEntry([](auto* job) { job->set_cpu_features("znver3"); }));
  storage::CompileJob gpu = Job();
  gpu.set_target("sm_90a");
  storage::CompileJob other_host = gpu;
  other_host.set_cpu_features("znver3");
  EXPECT_EQ(Key(gpu).hash, Key(other_host).hash);
}

TEST(CompileKey, NeverSharesBetweenTargets) {
  EXPECT_FALSE(SharesEntry([](auto* job) { job->set_target("interpreter"); }));
  storage::CompileJob hopper = Job(), hopper_plain = Job();
  hopper.set_target("sm_90a");
  hopper_plain.set_target("sm_90");
  EXPECT_NE(Key(hopper).hash, Key(hopper_plain).hash);
}

TEST(CompileKey, DoesNotDependOnTheOrderOfMapsAndSets) {
  storage::CompileJob forward = Job(), backward = Job();
  const std::vector<std::string> names = {"a", "b", "c", "d", "e", "f", "g", "h"};
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& first = names[i];
    const std::string& last = names[names.size() - 1 - i];
    (*forward.mutable_settings())[first] = "1";
    (*backward.mutable_settings())[last] = "1";
    (*forward.mutable_options()->mutable_extra())[first] = "1";
    (*backward.mutable_options()->mutable_extra())[last] = "1";
    forward.add_emit(first);
    backward.add_emit(last);
  }
  backward.add_emit("a");  // asked for twice
  EXPECT_EQ(Key(forward).canonical, Key(backward).canonical);
}

TEST(CompileKey, HoldsTheWholeTextWhereTheClosureCannot) {
  // A function passed as a value is not in the kernel's closure; its edit must be a new key all the same.
  storage::CompileJob job = Job();
  job.mutable_parameters(2)->mutable_constant()->set_function("activation");
  storage::CompileJob edited = job, moved = job;
  edited.mutable_files(0)->set_text("def activation(x): return x");
  moved.mutable_files(0)->set_path("/elsewhere/k.py");
  EXPECT_NE(Key(job).hash, Key(edited).hash);
  EXPECT_EQ(Key(job).hash, Key(moved).hash);
  EXPECT_NE(MakeCompileKey(Job(), "", kBuild).hash, MakeCompileKey(edited, "", kBuild).hash);
}

TEST(CompileKey, HoldsTheTextOfFunctionsThatArePassedAndNotTheirFile) {
  storage::CompileJob job = Job();
  job.mutable_parameters(2)->mutable_constant()->set_function("activation");
  EXPECT_THAT(FunctionsOf(job), ::testing::ElementsAre("activation"));
  SourceText source = kClosure, edited_function = kClosure;
  source.functions["activation"] = "def activation(x):\n  x\n";
  edited_function.functions["activation"] = "def activation(x):\n  x + 1\n";
  storage::CompileJob commented = job;
  commented.mutable_files(0)->set_text("# another comment\n" + job.files(0).text());
  EXPECT_EQ(MakeCompileKey(job, source, kBuild).hash, MakeCompileKey(commented, source, kBuild).hash);
  EXPECT_NE(MakeCompileKey(job, source, kBuild).hash, MakeCompileKey(job, edited_function, kBuild).hash);
  EXPECT_NE(MakeCompileKey(job, source, kBuild).hash, MakeCompileKey(Job(), source, kBuild).hash);
  // Inside a tuple too.
  storage::CompileJob tuple = Job();
  *tuple.mutable_parameters(2)->mutable_constant() =
      Parsed<storage::ConstantValue>("tuple { items { integer: 1 } items { function: 'activation' } }");
  EXPECT_NE(MakeCompileKey(tuple, source, kBuild).hash, MakeCompileKey(tuple, edited_function, kBuild).hash);
}

TEST(CompileKey, IsUnambiguousAcrossNeighbouringFields) {
  storage::CompileJob a = Job(), b = Job();
  a.mutable_parameters(0)->set_name("x\ntype=5:*fp16");
  EXPECT_NE(Key(a).hash, Key(b).hash);
  // The same bytes, moved from one field into the next.
  EXPECT_NE(MakeCompileKey(Job(), "ab", "c").hash, MakeCompileKey(Job(), "b", "ca").hash);
}

storage::ModuleRecord Module(const std::vector<std::pair<std::string, std::string>>& files) {
  storage::ModuleRecord module;
  for (const auto& [path, text] : files) {
    module.add_files()->set_path(path);
    module.mutable_files(module.files_size() - 1)->set_text(text);
  }
  return module;
}

TEST(ModuleId, HasTheBytesThatItAlwaysHad) {
  EXPECT_EQ(ModuleId(Module({{"m.py", "x = 1\n"}})), "d9798fa1ee77890a632c6c8ed0f48091fd05f99edc7f4405a99f2659fb5823b4");
}

TEST(ModuleId, FollowsTheTextAndIgnoresWhereTheModuleLies) {
  const std::string id = ModuleId(Module({{"/a/m.py", "import util"}, {"/a/util.py", "x = 1"}, {"/a/z.py", "y"}}));
  EXPECT_EQ(id, ModuleId(Module({{"/b/c/m.py", "import util"}, {"/b/c/z.py", "y"}, {"/b/c/util.py", "x = 1"}})));
  EXPECT_NE(id, ModuleId(Module({{"/a/m.py", "import util"}, {"/a/util.py", "x = 2"}, {"/a/z.py", "y"}})));
  EXPECT_NE(id, ModuleId(Module({{"/a/m.py", "import util"}, {"/a/lib/util.py", "x = 1"}, {"/a/z.py", "y"}})));
  EXPECT_NE(id, ModuleId(Module({{"/a/util.py", "x = 1"}, {"/a/m.py", "import util"}, {"/a/z.py", "y"}})));
  EXPECT_NE(id, ModuleId(Module({{"/a/m.py", "import util"}, {"/a/z.py", "x = 1"}, {"/a/util.py", "y"}})));
}

TEST(ModuleId, DoesNotFollowWhatIsDerivedFromTheText) {
  storage::ModuleRecord module = Module({{"m.py", "x"}}), described = module;
  described.mutable_description()->add_kernels()->set_name("k");
  described.set_registered_unix_seconds(7);
  EXPECT_EQ(ModuleId(module), ModuleId(described));
}

TEST(Explain, SaysWhatTheKeyHolds) {
  storage::CompileJob job = Job();
  job.mutable_options()->set_num_warps(8);
  job.mutable_parameters(1)->set_equals_one(true);
  *job.add_parameters() = Parsed<storage::ParameterSpec>(
      "name: 'd' tensor_descriptor { element_type: 'fp16' block_shape: [64, 32] nan_padding: true }");
  *job.add_parameters() = Parsed<storage::ParameterSpec>(
      "name: 'ACT' constant { tuple { items { text: 'gelu' } items { real: 0.5 } items { none {} } } }");
  (*job.mutable_settings())["TRITON_F32_DEFAULT"] = "ieee";
  const std::string text = Explain(Key(job).canonical);
  for (const char* line :
       {"compiler = build-1\n", "target = cpu\n", "cpu_features = znver4 +avx512f\n", "kernel = k\n",
        "parameter x: *fp16, divisible by 16\n", "parameter n: i32, always 1\n", "parameter BLOCK = 128\n",
        "parameter d: descriptor of fp16[64, 32], padded with nan\n", "parameter ACT = (\"gelu\", 0.5, None)\n",
        "option num_warps = 8\n", "option num_stages = 3\n", "setting TRITON_F32_DEFAULT = ieee\n",
        "closure = 27 bytes, blake2b "}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("/home/a")));
}

TEST(ExplainDifference, SaysWhyTwoLaunchesDoNotShareAnEntry) {
  storage::CompileJob other = Job();
  other.mutable_options()->set_num_warps(8);
  other.mutable_parameters(1)->set_divisibility(16);
  EXPECT_EQ(ExplainDifference(Key(Job()).canonical, Key(other).canonical),
            "- parameter n: i32\n"
            "- option num_warps = 4\n"
            "+ parameter n: i32, divisible by 16\n"
            "+ option num_warps = 8\n");
  EXPECT_EQ(ExplainDifference(Key(Job()).canonical, Key(Job()).canonical), "");
}

TEST(ExplainDifference, ShowsWhereTwoSourcesPart) {
  const std::string text =
      ExplainDifference(Key(Job()).canonical, MakeCompileKey(Job(), "def k(x, n, BLOCK):\n  changed\n", kBuild).canonical);
  EXPECT_THAT(text, HasSubstr("the closure differs first in line 2:\n  -   body\n  +   changed\n"));
}

TEST(Explain, SaysSoWhenTheTextIsNoKey) {
  EXPECT_THAT(Explain("nonsense"), HasSubstr("no compile key"));
  EXPECT_THAT(Explain(""), HasSubstr("no compile key"));
}

}  // namespace
}  // namespace tessera::cache
