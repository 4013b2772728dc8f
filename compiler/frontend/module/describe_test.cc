#include "compiler/frontend/module/describe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/frontend/module/testing.h"

namespace tessera::frontend {
namespace {

std::string ReadTestData(const std::string& name) {
  std::ifstream file("compiler/frontend/module/testdata/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

storage::KernelDescription Find(const storage::ModuleDescription& module, const std::string& name) {
  for (const storage::KernelDescription& kernel : module.kernels())
    if (kernel.name() == name) return kernel;
  ADD_FAILURE() << "no kernel " << name;
  return {};
}

storage::KernelDescription DescribeOne(const std::string& text, const std::string& name) {
  TestModule module(text);
  return Find(Describe(module.index()), name);
}

std::string Closure(const std::vector<std::pair<std::string, std::string>>& files, const std::string& name) {
  TestModule module(files);
  return ClosureText(module.index(), *module.index().FindJitFunction(name));
}

// {'A': 1} num_warps ...
std::string Text(const storage::TuneConfig& config) {
  std::string text;
  for (const storage::NamedConstant& value : config.values())
    absl::StrAppend(&text, value.name(), "=", value.value().has_tuple() ? "tuple" : absl::StrCat(value.value().integer()), " ");
  absl::StrAppend(&text, "w", config.options().num_warps(), " s", config.options().num_stages());
  return text;
}

TEST(Describe, ListsKernelsWithTheirParameters) {
  storage::KernelDescription k = DescribeOne(
      "import triton\nimport triton.language as tl\nfrom triton.language import constexpr as ce\nDEFAULT = 32\n"
      "@triton.jit(do_not_specialize=['n', 3], do_not_specialize_on_alignment=(0,))\n"
      "def k(p, n: tl.int32, B: tl.constexpr = DEFAULT * 2, m=-1, C: 'tl.constexpr' = None, D: ce = tl.float16, E: tl.constexpr = 'relu'):\n"
      "    tl.store(p, n)\n",
      "k");
  EXPECT_EQ(k.line(), 6u);
  EXPECT_TRUE(k.is_kernel());
  ASSERT_EQ(k.parameters_size(), 7);
  EXPECT_EQ(k.parameters(0).name(), "p");
  EXPECT_FALSE(k.parameters(0).is_constexpr());
  EXPECT_TRUE(k.parameters(0).do_not_specialize_on_alignment());
  EXPECT_FALSE(k.parameters(0).do_not_specialize());
  EXPECT_EQ(k.parameters(1).annotation(), "tl.int32");
  EXPECT_TRUE(k.parameters(1).do_not_specialize());
  EXPECT_TRUE(k.parameters(2).is_constexpr());
  EXPECT_EQ(k.parameters(2).default_value().integer(), 64);
  EXPECT_EQ(k.parameters(3).default_value().integer(), -1);
  EXPECT_TRUE(k.parameters(3).do_not_specialize());
  EXPECT_TRUE(k.parameters(4).is_constexpr());
  EXPECT_TRUE(k.parameters(4).default_value().has_none());
  EXPECT_TRUE(k.parameters(5).is_constexpr());
  EXPECT_EQ(k.parameters(5).default_value().dtype(), "fp16");
  EXPECT_EQ(k.parameters(6).default_value().text(), "relu");
  EXPECT_EQ(k.notes(), "");
}

TEST(Describe, TellsHelpersFromKernels) {
  TestModule module(
      "import triton\n@triton.jit\ndef helper(x):\n    if x:\n        return x\n@triton.jit\ndef kernel(x):\n    if x: return\n    return None\n");
  storage::ModuleDescription description = Describe(module.index());
  EXPECT_FALSE(Find(description, "helper").is_kernel());
  EXPECT_TRUE(Find(description, "kernel").is_kernel());
}

TEST(Describe, EvaluatesConfigurations) {
  storage::KernelDescription k = DescribeOne(ReadTestData("autotune.py"), "from_comprehension");
  std::vector<std::string> configs;
  for (const storage::TuneConfig& config : k.configs()) configs.push_back(Text(config));
  EXPECT_EQ(configs, (std::vector<std::string>{"BM=64 BN=64 w4 s2", "BM=64 BN=64 w4 s3", "BM=64 BN=64 w8 s2", "BM=64 BN=64 w8 s3",
                                               "BM=128 BN=64 w4 s2", "BM=128 BN=64 w4 s3", "BM=128 BN=64 w8 s2", "BM=128 BN=64 w8 s3"}));
  EXPECT_EQ(k.tuning_key(0), "M");
  EXPECT_EQ(k.tuning_key_size(), 2);
  EXPECT_EQ(k.notes(), "");

  k = DescribeOne(ReadTestData("autotune.py"), "from_function");
  ASSERT_EQ(k.configs_size(), 2);
  EXPECT_EQ(Text(k.configs(1)), "BM=32 BN=32 w0 s0");
  EXPECT_EQ(k.reset_to_zero(0), "p");
  EXPECT_EQ(k.restore_value(0), "q");
  EXPECT_EQ(k.configs(0).options().extra().at("waves_per_eu"), "2");
  EXPECT_EQ(k.configs(0).options().maxnreg(), 128u);

  k = DescribeOne(ReadTestData("autotune.py"), "from_global");
  EXPECT_EQ(k.configs_size(), 3);
}

TEST(Describe, NotesConfigurationsItCannotEvaluate) {
  storage::KernelDescription k = DescribeOne(ReadTestData("autotune.py"), "from_outside");
  EXPECT_EQ(k.configs_size(), 0);
  EXPECT_NE(k.notes().find("the list of configurations cannot be evaluated: 'tuning.db.load' comes from outside the module"), std::string::npos) << k.notes();
  EXPECT_EQ(k.tuning_key(0), "M");
}

TEST(Describe, PrunesConfigurationsThatNoLaunchCanSave) {
  storage::KernelDescription k = DescribeOne(ReadTestData("autotune.py"), "pruned");
  std::vector<std::string> configs;
  for (const storage::TuneConfig& config : k.configs()) configs.push_back(Text(config));
  EXPECT_EQ(configs, (std::vector<std::string>{"BM=32 BN=64 w0 s0", "BM=64 BN=64 w0 s0"}));
  EXPECT_FALSE(k.prunes_by_launch());
  EXPECT_EQ(k.notes(), "");
}

TEST(Describe, KeepsAllConfigurationsWherePruningDependsOnTheLaunch) {
  storage::KernelDescription k = DescribeOne(ReadTestData("autotune.py"), "pruned_by_launch");
  EXPECT_EQ(k.configs_size(), 6);
  EXPECT_TRUE(k.prunes_by_launch());
}

TEST(ConfigsForLaunch, AsksEarlyConfigPruneThenTheModel) {
  TestModule module(ReadTestData("autotune.py"));
  auto kept = [&](int64_t m, int64_t n, std::string* note) {
    return *ConfigsForLaunch(module.index(), "pruned_by_launch", {{"M", Constant::Int(m)}, {"N", Constant::Int(n)}}, note);
  };
  std::string note;
  // 40 rows leave the blocks of 32, with 4 and 8 warps: two are kept.
  EXPECT_EQ(kept(40, 64, &note), (std::vector<size_t>{0, 1}));
  // Of all six, 130 rows are padded least by 32 (160 rows) and with 8 warps: 160/8, then 192/8.
  EXPECT_EQ(kept(130, 64, &note), (std::vector<size_t>{1, 3}));
  // Nothing fits: early_config_prune falls back to the first.
  EXPECT_EQ(kept(8, 8, &note), (std::vector<size_t>{0}));
  EXPECT_EQ(note, "");
}

TEST(ConfigsForLaunch, SaysWhyNothingWasPruned) {
  TestModule module(ReadTestData("autotune.py"));
  std::string note;
  EXPECT_EQ(ConfigsForLaunch(module.index(), "pruned_by_launch", {{"N", Constant::Int(64)}}, &note)->size(), 6u);
  EXPECT_NE(note.find("early_config_prune cannot be evaluated"), std::string::npos) << note;
  EXPECT_FALSE(ConfigsForLaunch(module.index(), "absent", {}, &note));
}

TEST(Describe, MarksConfigurationsWithHooks) {
  storage::KernelDescription k = DescribeOne(ReadTestData("autotune.py"), "hooked");
  ASSERT_EQ(k.configs_size(), 1);
  EXPECT_NE(k.configs(0).options().extra().at("pre_hook"), "None");
  EXPECT_NE(k.notes().find("configurations with a pre_hook do not run"), std::string::npos) << k.notes();
}

TEST(Describe, MakesHeuristicsSelfContained) {
  TestModule module(ReadTestData("heuristics.py"));
  storage::KernelDescription k = Find(Describe(module.index()), "k");
  EXPECT_EQ(k.notes(), "");
  auto value = [&](const std::string& name, const NamedConstants& arguments) {
    for (const storage::KernelDescription::Heuristic& heuristic : k.heuristics()) {
      if (heuristic.name() != name) continue;
      std::string error;
      std::optional<Constant> result = EvaluateHeuristic(heuristic.expression(), arguments, &error);
      return result ? Repr(*result) : error;
    }
    return std::string("absent");
  };
  Constant pointer = Constant::Int(4096);
  EXPECT_EQ(value("HAS_BIAS", {{"bias", Constant::None()}}), "False");
  EXPECT_EQ(value("HAS_BIAS", {{"bias", pointer}}), "True");
  EXPECT_EQ(value("BLOCK", {{"n", Constant::Int(1000)}}), "512") << "capped by the module's constant";
  EXPECT_EQ(value("BLOCK", {{"n", Constant::Int(100)}}), "128");
  EXPECT_EQ(value("EVEN", {{"n", Constant::Int(256)}, {"BLOCK", Constant::Int(128)}}), "True");
  EXPECT_EQ(value("WARPS", {{"BLOCK", Constant::Int(2048)}}), "8");
  EXPECT_EQ(value("WARPS", {{"BLOCK", Constant::Int(256)}}), "4");
  EXPECT_EQ(k.heuristics(0).expression(), "args['bias'] is not None");
  // Calls of functions that return an expression are replaced: a launch evaluates expressions only.
  EXPECT_EQ(value("LINEAR", {{"stride", Constant::Int(12)}, {"n", Constant::Int(3)}}), "False");
  EXPECT_EQ(value("LINEAR", {{"stride", Constant::Int(13)}, {"n", Constant::Int(3)}}), "True");
  EXPECT_EQ(value("WIDE", {{"n", Constant::Int(512)}}), "True");
  for (const storage::KernelDescription::Heuristic& heuristic : k.heuristics())
    if (heuristic.name() != "WARPS") EXPECT_EQ(heuristic.expression().find("def "), std::string::npos) << heuristic.expression();
  std::string error = value("EVEN", {{"n", Constant::Int(256)}});
  EXPECT_NE(error.find("the dict has no key 'BLOCK'"), std::string::npos) << error;
}

TEST(EvaluateHeuristic, ReportsTextThatIsNoExpression) {
  std::string error;
  EXPECT_FALSE(EvaluateHeuristic("x = 1", {}, &error));
  EXPECT_FALSE(EvaluateHeuristic("args[", {}, &error));
  EXPECT_NE(error.find("never closed"), std::string::npos) << error;
  EXPECT_FALSE(EvaluateHeuristic("", {}, &error));
}

//===-- closures ------------------------------------------------------------------------------===//

constexpr char kMain[] =
    "import triton\nimport triton.language as tl\nfrom .helpers import square, Unused\nSCALE = tl.constexpr(2)\nOTHER = 5\n"
    "@triton.jit\ndef k(p, n, B: tl.constexpr):\n"
    "    i = tl.arange(0, B)\n"
    "    tl.store(p + i, square(i) * SCALE, mask=i < n)\n";
constexpr char kHelpers[] =
    "import triton\nOFFSET = 7\nUnused = 3\n@triton.jit\ndef inner(x):\n    return x + OFFSET\n@triton.jit\ndef square(x):\n    return inner(x * x)\n"
    "@triton.jit\ndef unrelated(x):\n    return x\n";

std::string KClosure(const std::string& main, const std::string& helpers) {
  return Closure({{"pkg/main.py", main}, {"pkg/helpers.py", helpers}}, "k");
}

std::string Replace(const std::string& text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  return absl::StrReplaceAll(text, {{from, to}});
}

TEST(Closure, IgnoresWhatCannotChangeTheCode) {
  std::string base = KClosure(kMain, kHelpers);
  EXPECT_NE(base.find("x + OFFSET"), std::string::npos);
  EXPECT_EQ(KClosure(std::string("# comment\n\n") + kMain, kHelpers), base) << "shifted lines";
  EXPECT_EQ(KClosure(Replace(kMain, "    i = tl", "    '''doc'''  # remark\n\n    i   =  tl"), kHelpers), base) << "comments, docstrings, spacing";
  EXPECT_EQ(KClosure(Replace(kMain, "square(i) * SCALE", "(square(i)) * (SCALE)"), kHelpers), base) << "parentheses";
  EXPECT_EQ(KClosure(Replace(kMain, "OTHER = 5", "OTHER = 6"), kHelpers), base) << "constants it does not read";
  EXPECT_EQ(KClosure(kMain, Replace(kHelpers, "    return x\n", "    return x - 1\n")), base) << "functions it does not call";
  EXPECT_EQ(KClosure(Replace(kMain, "constexpr(2)", "constexpr(1 + 1)"), kHelpers), base) << "how a constant is written";
  EXPECT_EQ(Closure({{"elsewhere/deep/a.py", kMain}, {"elsewhere/deep/helpers.py", kHelpers}}, "k"), base) << "paths";
  EXPECT_EQ(Closure({{"pkg/main.py", kMain}, {"pkg/aaa.py", "X = 1\n"}, {"pkg/helpers.py", kHelpers}}, "k"), base) << "other files";
  std::string windows = Replace(kMain, "\n", "\r\n");
  EXPECT_EQ(KClosure(windows, kHelpers), base) << "line ends";
  EXPECT_EQ(KClosure(Replace(kMain, "@triton.jit\ndef k", "@triton.autotune(configs=[triton.Config({'B': 64})], key=['n'])\n@triton.jit\ndef k"), kHelpers), base)
      << "tuning, which is part of the job";
}

TEST(Closure, SeesEverythingThatCanChangeTheCode) {
  std::string base = KClosure(kMain, kHelpers);
  EXPECT_NE(KClosure(Replace(kMain, "i < n", "i <= n"), kHelpers), base) << "the kernel";
  EXPECT_NE(KClosure(kMain, Replace(kHelpers, "x * x", "x * x * x")), base) << "a callee";
  EXPECT_NE(KClosure(kMain, Replace(kHelpers, "x + OFFSET", "x - OFFSET")), base) << "a callee's callee";
  EXPECT_NE(KClosure(kMain, Replace(kHelpers, "OFFSET = 7", "OFFSET = 8")), base) << "a constant of a callee";
  EXPECT_NE(KClosure(Replace(kMain, "constexpr(2)", "constexpr(3)"), kHelpers), base) << "a constant";
  EXPECT_NE(KClosure(Replace(kMain, "constexpr(2)", "constexpr(2.0)"), kHelpers), base) << "the type of a constant";
  EXPECT_NE(KClosure(Replace(kMain, "import square, Unused", "import inner as square"), kHelpers), base) << "what a name refers to";
  EXPECT_NE(KClosure(Replace(kMain, "n, B: tl.constexpr", "n: tl.int64, B: tl.constexpr"), kHelpers), base) << "annotations";
  EXPECT_NE(KClosure(Replace(kMain, "@triton.jit", "@triton.jit(noinline=True)"), kHelpers), base);
}

TEST(Closure, FollowsAliasesAndModules) {
  std::string module_style = Replace(Replace(kMain, "from .helpers import square, Unused", "from . import helpers"), "square(i)", "helpers.square(i)");
  std::string base = KClosure(module_style, kHelpers);
  EXPECT_NE(KClosure(module_style, Replace(kHelpers, "x * x", "x * x * x")), base);
  std::string alias = Replace(kMain, "OTHER = 5", "f = tl.exp");
  alias = Replace(alias, "square(i)", "f(square(i))");
  EXPECT_NE(KClosure(alias, kHelpers), KClosure(Replace(alias, "f = tl.exp", "f = tl.log"), kHelpers));
}

TEST(Closure, EndsForFunctionsThatCallThemselves) {
  std::string text = Closure({{"a.py", "import triton\n@triton.jit\ndef a(x):\n    return b(x)\n@triton.jit\ndef b(x):\n    return a(x)\n"}}, "a");
  EXPECT_NE(text.find("b is function 1"), std::string::npos);
  EXPECT_NE(text.find("a is function 0"), std::string::npos);
}

TEST(Describe, KeepsTheMainFilesFunctionOfEachName) {
  TestModule module({{"main.py", "import triton\n@triton.jit\ndef k(a):\n    pass\n"}, {"other.py", "import triton\n@triton.jit\ndef k(b):\n    pass\n"}});
  storage::ModuleDescription description = Describe(module.index());
  ASSERT_EQ(description.kernels_size(), 1);
  EXPECT_EQ(description.kernels(0).parameters(0).name(), "a");
  EXPECT_EQ(description.kernels(0).notes(), "another 'k' in other.py line 3 cannot be launched by name");
}

TEST(Describe, SurvivesTruncationAtEveryByte) {
  std::string text = ReadTestData("autotune.py") + ReadTestData("heuristics.py");
  for (size_t length = 0; length <= text.size(); length += 3) {
    Diagnostics diagnostics;
    std::vector<File> files;
    files.push_back(Parse(0, "cut.py", text.substr(0, length), &diagnostics));
    ModuleIndex module(files);
    storage::ModuleDescription description = Describe(module);
    std::string bytes;
    EXPECT_TRUE(description.SerializeToString(&bytes));
  }
}

}  // namespace
}  // namespace tessera::frontend
