#include "server/warmup/manifest.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

absl::StatusOr<std::shared_ptr<const ParsedManifest>> Parse(const std::string& text) {
  return ParseManifest(text, "m.yaml", [](const std::string& path) -> absl::StatusOr<std::string> {
    if (path == "add.py") return std::string("the text of add.py");
    return absl::NotFoundError("there is no file " + path);
  });
}

TEST(Manifest, ReadsModulesKernelsAndConstants) {
  auto parsed = Parse(R"(
devices: [cpu:0, interpreter]
required: false
modules:
  - path: add.py
    kernels:
      - name: add_kernel
        signature: ["x=*fp32:16", "n=i32:16"]
        constants: {BLOCK: 1024, FAST: True, EPS: 1e-6, MODE: "fp16", T: fp16, F: fn:gelu, B: None, P: [1, 2]}
        options: {num_warps: 8, enable_fp_fusion: false}
        config: 2
        device: interpreter
        required: true
  - source: |
      text
    kernels:
      - name: k
        arguments:
          x: "*fp16:16"
          m: [1, 16, {range: {from: 1, to: 4096, by: power_of_two}}]
          n: {type: i64, values: [5, 6]}
        shapes:
          - {m: 1, n: 2}
          - {m: 3}
)");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const tessera::v1::Manifest& manifest = (*parsed)->manifest;
  ASSERT_EQ(manifest.modules_size(), 2);
  EXPECT_EQ((*parsed)->sources[0][0].text(), "the text of add.py");
  EXPECT_EQ((*parsed)->sources[1][0].text(), "text\n");
  EXPECT_EQ(manifest.devices(1), "interpreter");
  EXPECT_FALSE(manifest.required());
  const tessera::v1::ManifestKernel& add = manifest.modules(0).kernels(0);
  EXPECT_EQ((*parsed)->places.Line(add), "m.yaml:7");
  EXPECT_EQ(add.signature_size(), 2);
  EXPECT_EQ(add.config(), 2);
  EXPECT_EQ(add.device(), "interpreter");
  EXPECT_TRUE(add.required());
  EXPECT_EQ(add.options().num_warps(), 8u);
  EXPECT_EQ(add.options().extra().at("enable_fp_fusion"), "false");
  ASSERT_EQ(add.constants_size(), 8);
  EXPECT_EQ(add.constants(0).value().integer(), 1024);
  EXPECT_TRUE(add.constants(1).value().boolean());
  EXPECT_EQ(add.constants(2).value().real(), 1e-6);
  EXPECT_EQ(add.constants(3).value().text(), "fp16");
  EXPECT_EQ(add.constants(4).value().dtype(), "fp16");
  EXPECT_EQ(add.constants(5).value().function(), "gelu");
  EXPECT_TRUE(add.constants(6).value().has_none());
  EXPECT_EQ(add.constants(7).value().tuple().items_size(), 2);
  const tessera::v1::ManifestKernel& k = manifest.modules(1).kernels(0);
  ASSERT_EQ(k.arguments_size(), 3);
  EXPECT_EQ(k.arguments(0).value().text(), "*fp16:16");
  ASSERT_EQ(k.arguments(1).value().any_of_size(), 3);
  EXPECT_EQ(k.arguments(1).value().any_of(2).range().by(), "power_of_two");
  EXPECT_EQ(k.arguments(2).value().values_size(), 2);
  ASSERT_EQ(k.shapes_size(), 2);
  EXPECT_EQ(k.shapes(0).values(1).value().values(0).integer(), 2);
}

TEST(Manifest, SaysWhereAMistakeIs) {
  const std::string module = "modules:\n  - path: add.py\n    kernels:\n      - name: k\n";
  struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"modules:\n  - paht: add.py\n", "m.yaml:2:5: a module has no 'paht'; it has: path, source"},
      {"modules:\n  - path: sub.py\n    kernels:\n      - name: k\n",
       "m.yaml:2:5: there is no file sub.py"},
      {"modules:\n  - path: add.py\n", "m.yaml:2:5: a module has 'kernels'"},
      {"modules:\n  - kernels: [{name: k}]\n", "m.yaml:2:5: a module has one of"},
      {"modules:\n  - path: add.py\n    kernels:\n      - signature: []\n",
       "m.yaml:4:9: a kernel has a name"},
      {module + "        config: x\n", "m.yaml:5:17: 'config': a whole number"},
      {module + "        config: 99999999999\n", "m.yaml:5:17: 'config': a whole number"},
      {module + "        config: 1\n        config: 2\n", "m.yaml:6:9: 'config' is given twice"},
      {module + "        config: 1\n        configs: [1]\n", "m.yaml:4:9: a kernel has config"},
      {module + "        signature: [\"x=i32\"]\n        arguments: {x: 1}\n",
       "m.yaml:4:9: a kernel has a signature"},
      {module + "        arguments: {x: {rang: 3}}\n",
       "m.yaml:5:25: an argument pattern has no 'rang'; it has: text, type, values"},
      {module + "        arguments: {x: {range: {from: 1, to: many}}}\n",
       "m.yaml:5:46: 'to': a whole number"},
      {module + "        arguments: {x: 1, x: 2}\n", "m.yaml:5:27: 'x' is given twice"},
      {module + "        arguments: [1]\n", "m.yaml:5:21: a named pattern is made of"},
      {module + "        options: {num_warps: lots}\n", "m.yaml:5:30: 'num_warps': a whole number"},
      {module + "        required: perhaps\n", "m.yaml:5:19: 'required' is true or false"},
      {"modules: 3\n", "m.yaml:1:10: 'modules' is a list"},
      {"opps: []\n", "m.yaml:1:1: the manifest has no 'opps'"},
      {"- 1\n", "m.yaml:1:1: the manifest is made of"},
      {"modules: [\n", "m.yaml:2:"},
      {"ops:\n  - tensors: {a: fp16}\n", "m.yaml:2:5: an op has a name"},
      {"ops:\n  - op: linear\n", "m.yaml:2:5: an op has tensors"},
      {"tunings:\n  - kernel: k\n", "m.yaml:2:5: a tuning has a kernel, a bucket"},
  };
  for (const auto& c : cases) {
    absl::Status status = Parse(c.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_NE(std::string(status.message()).find(c.message), std::string::npos)
        << c.text << "gives: " << status << "\nwanted: " << c.message;
  }
}

TEST(Manifest, RefusesTextNestedWithoutEnd) {
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "[";
  for (int i = 0; i < 200; ++i) deep += "]";
  EXPECT_EQ(Parse("modules: [{source: t, kernels: [{name: k, constants: {A: " + deep + "}}]}]")
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Manifest, AsksForTheFilesThatAClientDidNotSend) {
  google::protobuf::RepeatedPtrField<tessera::v1::SourceFile> files;
  std::vector<std::string> wanted;
  const char* text =
      "modules:\n  - path: a.py\n    kernels: [{name: k}]\n  - path: b.py\n    kernels: [{name: "
      "k}]\n";
  files.Add()->set_path("a.py");
  files.Mutable(0)->set_text("a");
  ASSERT_TRUE(ParseManifest(text, "m.yaml", FilesOfRequest(files, &wanted)).ok());
  ASSERT_EQ(wanted.size(), 1u);
  EXPECT_EQ(wanted[0], "b.py");
  EXPECT_FALSE(ParseManifest(text, "m.yaml", FilesOfRequest(files, nullptr)).ok());
}

}  // namespace
}  // namespace tessera::server
