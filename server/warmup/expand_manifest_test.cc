#include "server/warmup/expand_manifest.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "server/launch/recipe.h"

namespace tessera::server {
namespace {

namespace api = ::tessera::v1;

// Parameters x, n, m and the constexpr BLOCK; two configurations.
storage::KernelDescription Kernel(bool tuned = false) {
  storage::KernelDescription kernel;
  kernel.set_name("k");
  for (const char* name : {"x", "n", "m", "BLOCK"}) {
    auto* parameter = kernel.add_parameters();
    parameter->set_name(name);
    parameter->set_is_constexpr(std::string(name) == "BLOCK");
  }
  if (tuned)
    for (int block : {64, 128}) {
      storage::NamedConstant* value = kernel.add_configs()->add_values();
      value->set_name("BLOCK");
      value->mutable_value()->set_integer(block);
    }
  return kernel;
}

struct Expansion {
  absl::Status status;
  std::vector<std::string> items;           // "device: x=... config"
  std::vector<std::string> first_launches;  // of those that ask for one, as text
};

// "grid: x[extents] n=5 BLOCK:64"
std::string FirstLaunchText(const api::LaunchRequest& launch) {
  std::string line =
      absl::StrCat(launch.device(), absl::StrJoin(launch.grid_expressions(), ";"), ":");
  for (const api::Argument& argument : launch.arguments()) {
    absl::StrAppend(&line, " ", argument.name());
    if (argument.has_tensor())
      absl::StrAppend(&line, "[", absl::StrJoin(argument.tensor().shape(), ","), "]");
    else if (argument.has_constant())
      absl::StrAppend(&line, ":", LiteralText(argument.constant()));
    else
      absl::StrAppend(&line, "=", argument.integer());
  }
  return line;
}

Expansion Expand(const std::string& entry, const storage::KernelDescription& kernel = Kernel(),
                 const std::string& head = "") {
  std::string text =
      head + "modules:\n  - source: t\n    kernels:\n      - {name: k" + entry + "}\n";
  auto parsed = ParseManifest(text, "m.yaml", [](const std::string&) { return std::string(); });
  if (!parsed.ok()) return {parsed.status(), {}};
  TunedConfigs tuned = [](const std::string&, const std::string&, const std::string&) {
    storage::TuneConfig config;
    storage::NamedConstant* value = config.add_values();
    value->set_name("BLOCK");
    value->mutable_value()->set_integer(32);
    return std::vector<storage::TuneConfig>{config};
  };
  std::vector<ManifestItem> items;
  Expansion expansion;
  expansion.status = ExpandKernel(**parsed, (*parsed)->manifest.modules(0).kernels(0), kernel, "id",
                                  tuned, &items);
  for (const ManifestItem& item : items) {
    std::string line = item.request.device();
    for (const api::Argument& argument : item.request.arguments()) {
      absl::StrAppend(&line, " ", argument.name(), "=");
      if (argument.has_tensor())
        absl::StrAppend(&line, argument.tensor().dtype(),
                        argument.tensor().byte_offset() % 16 == 0 ? "+" : "-");
      else if (argument.has_constant())
        absl::StrAppend(&line, LiteralText(argument.constant()));
      else
        absl::StrAppend(&line, argument.integer(), argument.type());
    }
    for (const api::NamedConstant& constant : item.request.constants())
      absl::StrAppend(&line, " ", constant.name(), ":", LiteralText(constant.value()));
    if (item.request.config() != 0) absl::StrAppend(&line, " #", item.request.config());
    if (!item.required) line += " optional";
    expansion.items.push_back(line);
    if (item.first_launch != nullptr)
      expansion.first_launches.push_back(FirstLaunchText(*item.first_launch));
  }
  return expansion;
}

std::string Joined(const Expansion& expansion) {
  EXPECT_TRUE(expansion.status.ok()) << expansion.status;
  return absl::StrJoin(expansion.items, "\n");
}

TEST(ExpandManifest, CombinesWhatAnEntryLists) {
  EXPECT_EQ(Joined(Expand(
                R"(, arguments: {x: ["*fp16:16", "*fp32"], n: [1, 16]}, constants: {BLOCK: 64})")),
            " x=fp16+ n=1 BLOCK:64\n x=fp16+ n=16 BLOCK:64\n x=fp32- n=1 BLOCK:64\n x=fp32- n=16 "
            "BLOCK:64");
}

TEST(ExpandManifest, TakesRowsOfShapesOverTheArguments) {
  EXPECT_EQ(
      Joined(Expand(
          R"(, arguments: {x: "*fp16:16", n: 5, BLOCK: [32, 64]}, shapes: [{n: 1, m: 2}, {m: 3}])")),
      " n=1 m=2 x=fp16+ BLOCK=32\n n=1 m=2 x=fp16+ BLOCK=64\n m=3 x=fp16+ n=5 BLOCK=32\n m=3 "
      "x=fp16+ n=5 BLOCK=64");
}

TEST(ExpandManifest, HasAnIntegerOfEachClass) {
  EXPECT_EQ(Joined(Expand(", arguments: {n: {range: {from: 1, to: 4096}}}")), " n=1\n n=2\n n=16");
  EXPECT_EQ(Joined(Expand(", arguments: {n: {range: {from: 32, to: 40}}}")), " n=32\n n=33");
  EXPECT_EQ(Joined(Expand(", arguments: {n: {classes: [one, multiple_of_16, other]}}")),
            " n=1\n n=16\n n=17");
  EXPECT_EQ(Joined(Expand(", arguments: {n: i64, m: \"i32:16\"}")), " n=17i64 m=16");
}

TEST(ExpandManifest, FollowsTheRuleOfARange) {
  EXPECT_EQ(Joined(Expand(", arguments: {BLOCK: {range: {from: 32, to: 200, by: power_of_two}}}")),
            " BLOCK=32\n BLOCK=64\n BLOCK=128");
  EXPECT_EQ(Joined(Expand(", arguments: {n: {range: {from: 3, to: 5, by: exact}}}")),
            " n=3\n n=4\n n=5");
  EXPECT_EQ(Joined(Expand(", arguments: {n: {range: {from: 1, to: 20, by: \"multiple_of:8\"}}}")),
            " n=8\n n=16");
  EXPECT_EQ(Joined(Expand(", arguments: {n: {range: {from: 1, to: 20, by: \"step:9\"}}}")),
            " n=1\n n=10\n n=19");
  // Buckets' edges, and the classes between them.
  EXPECT_EQ(
      Joined(Expand(
          ", arguments: {n: {range: {from: 16, to: 300, by: edges, edges: [128, 256, 512]}}}")),
      " n=16\n n=17\n n=128\n n=256");
}

TEST(ExpandManifest, ComputesWhatDependsOnOthers) {
  EXPECT_EQ(
      Joined(Expand(
          ", arguments: {n: [2, 8], m: {expression: \"n * 2 + BLOCK\"}}, constants: {BLOCK: 64}")),
      " n=2 m=68 BLOCK:64\n n=8 m=80 BLOCK:64");
  // A range that something is computed from has every residue: 2 * 8 is a multiple of 16.
  Expansion computed =
      Expand(", arguments: {n: {range: {from: 2, to: 1000}}, m: {expression: \"n * 2\"}}");
  EXPECT_NE(std::find(computed.items.begin(), computed.items.end(), " n=8 m=16"),
            computed.items.end());
}

TEST(ExpandManifest, TakesConfigurationsAsAsked) {
  EXPECT_EQ(Joined(Expand(", configs: all", Kernel(true))), " #1\n #2");
  EXPECT_EQ(Joined(Expand(", config: 2", Kernel(true))), " #2");
  EXPECT_EQ(Joined(Expand(", configs: [default, 1]", Kernel(true))), "\n #1");
  EXPECT_EQ(Joined(Expand("", Kernel(true))), "\n BLOCK:32")
      << "what is in force, and what was chosen for a bucket";
  EXPECT_EQ(Joined(Expand(", constants: {BLOCK: 8}", Kernel(true))), " BLOCK:8");
}

TEST(ExpandManifest, GivesDevicesAndRequiredFromTheEntryOrTheManifest) {
  EXPECT_EQ(Joined(Expand("", Kernel(), "devices: [a, b]\nrequired: false\n")),
            "a optional\nb optional");
  EXPECT_EQ(
      Joined(Expand(", device: c, required: true", Kernel(), "devices: [a, b]\nrequired: false\n")),
      "c");
}

TEST(ExpandManifest, GivesFirstLaunchesTheExtentsOfTheirMemory) {
  const std::string first = ", first_launch: {grid: \"cdiv(n, BLOCK)\", tensors: {x: ";
  Expansion expansion = Expand(
      R"(, arguments: {x: "*fp16:16", n: [5, 64], m: {expression: "n * 2"}}, constants: {BLOCK: 64})" +
      first + "\"fp16[n, m + BLOCK]\"}}");
  ASSERT_TRUE(expansion.status.ok()) << expansion.status;
  EXPECT_EQ(
      absl::StrJoin(expansion.first_launches, "\n"),
      "cdiv(n, BLOCK): x[5,74] n=5 m=10 BLOCK:64\ncdiv(n, BLOCK): x[64,192] n=64 m=128 BLOCK:64");
  EXPECT_EQ(Expand(", arguments: {x: \"*fp16:16\"}").first_launches.size(), 0u);
  auto refused = [&](const std::string& entry) {
    return std::string(Expand(entry).status.message());
  };
  EXPECT_NE(refused(R"(, arguments: {x: "*fp16:16", n: 1}, first_launch: {grid: 1})")
                .find("needs the extents of 'x'"),
            std::string::npos);
  EXPECT_NE(
      refused(
          R"(, arguments: {x: "*fp16:16", n: 1}, first_launch: {grid: 1, tensors: {n: "fp16[1]"}})")
          .find("'n' is no pointer"),
      std::string::npos);
  EXPECT_NE(
      refused(R"(, arguments: {x: "*fp16:16", n: 1})" + first + "\"fp32[n]\"}}").find("not fp32"),
      std::string::npos);
  EXPECT_NE(refused(", signature: [\"n=i32\"], first_launch: {grid: 1}")
                .find("a signature has no values"),
            std::string::npos);
  EXPECT_NE(refused(", first_launch: {tensors: {}}").find("one to three extents"),
            std::string::npos);
}

TEST(ExpandManifest, SaysWhereAnEntryIsWrong) {
  struct {
    const char* entry;
    const char* message;
  } cases[] = {
      {", arguments: {z: 1}", "m.yaml:4:31: kernel k has no parameter 'z'; it has: x, n, m, BLOCK"},
      {", arguments: {x: \"*fp17\"}", "m.yaml:4:31: "},
      {", arguments: {n: \"i32:5\"}", "only divisibility by 16"},
      {", arguments: {n: {classes: [two]}}", "there is no class 'two'"},
      {", arguments: {n: {range: {from: 2, to: 1}}}", "is empty"},
      {", arguments: {n: {range: {from: 1, to: 2, by: tens}}}", "is no rule"},
      {", arguments: {BLOCK: {range: {from: 1, to: 64}}}", "each value of a constexpr parameter"},
      {", arguments: {n: {}}", "a value is expected"},
      {", arguments: {n: {expression: \"q + 1\"}}", "'q' has no value here"},
      {", constants: {Z: 1}", "kernel k has no parameter 'Z'"},
      {", config: 3", "kernel k has 0 configurations"},
      {", configs: best", "'best' is no configuration"},
  };
  for (const auto& c : cases) {
    Expansion expansion = Expand(c.entry);
    EXPECT_EQ(expansion.status.code(), absl::StatusCode::kInvalidArgument) << c.entry;
    EXPECT_NE(std::string(expansion.status.message()).find(c.message), std::string::npos)
        << c.entry << " gives: " << expansion.status;
  }
  Expansion huge = Expand(
      ", arguments: {n: {range: {from: 1, to: 1000, by: exact}}, m: {range: {from: 1, to: 1000, "
      "by: exact}}}");
  EXPECT_EQ(huge.status.code(), absl::StatusCode::kResourceExhausted) << huge.status;
}

// An op that wants its two tensors alike.
class Pair : public OpCatalog {
 public:
  api::ListOpsResponse List() const override { return {}; }
  absl::StatusOr<storage::SourceFile> Source(const std::string&) const override {
    return storage::SourceFile();
  }
  absl::StatusOr<api::LaunchRequest> Plan(const api::LaunchOpRequest& request) const override {
    if (request.tensors(0).tensor().dtype() != request.tensors(1).tensor().dtype())
      return absl::InvalidArgumentError("dtypes differ");
    api::LaunchRequest launch;
    launch.set_kernel(absl::StrCat("pair_", request.attributes_size()));
    *launch.mutable_arguments() = request.tensors();
    return launch;
  }
};

TEST(ExpandManifest, PlansOpsForTheirShapes) {
  auto parsed = ParseManifest(R"(ops:
  - op: pair
    tensors: {a: {dtypes: [fp16, fp32], shape: [M, K]}, b: "fp16[K, M * 2]"}
    attributes: {activation: [gelu, relu]}
    shapes: [{M: [1, 4], K: 8}]
)",
                              "m.yaml", [](const std::string&) { return std::string(); });
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  std::vector<ManifestItem> items;
  absl::Status status = ExpandOp(**parsed, (*parsed)->manifest.ops(0), Pair(), "id", &items);
  ASSERT_TRUE(status.ok()) << status;
  // fp32 with fp16 breaks the contract; the others remain.
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items[0].request.kernel(), "pair_1");
  EXPECT_EQ(absl::StrJoin(items[0].request.arguments(1).tensor().shape(), ","), "8,2");
  EXPECT_EQ(items[0].where, "m.yaml:2");
}

}  // namespace
}  // namespace tessera::server
