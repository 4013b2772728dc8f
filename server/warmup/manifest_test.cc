#include "server/warmup/manifest.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera::server {
namespace {

absl::StatusOr<std::vector<ManifestModule>> Parse(const char* text) {
  return ParseManifest(text, "m.yaml", [](const std::string& path) -> absl::StatusOr<std::string> {
    if (path == "add.py") return std::string("the text of add.py");
    return absl::NotFoundError("there is no file " + path);
  });
}

TEST(Manifest, ReadsModulesKernelsAndConstants) {
  auto modules = Parse(R"(
modules:
  - path: add.py
    kernels:
      - name: add_kernel
        signature: ["x=*fp32:16", "n=i32:16"]
        constants: {BLOCK: 1024, FAST: True, EPS: 1e-6, MODE: "fp16", T: fp16, F: fn:gelu, B: None, P: [1, 2]}
        options: {num_warps: 8, enable_fp_fusion: false}
        config: 2
        device: interpreter
  - source: |
      text
    kernels: []
)");
  ASSERT_TRUE(modules.ok()) << modules.status();
  ASSERT_EQ(modules->size(), 2u);
  EXPECT_EQ((*modules)[0].files[0].text(), "the text of add.py");
  EXPECT_EQ((*modules)[1].files[0].text(), "text\n");
  const tessera::v1::CompileRequest& request = (*modules)[0].items[0].request;
  EXPECT_EQ((*modules)[0].items[0].where, "m.yaml:5");
  EXPECT_EQ(request.kernel(), "add_kernel");
  ASSERT_EQ(request.signature_size(), 2);
  EXPECT_EQ(request.config(), 2);
  EXPECT_EQ(request.device(), "interpreter");
  EXPECT_EQ(request.options().num_warps(), 8u);
  EXPECT_EQ(request.options().extra().at("enable_fp_fusion"), "false");
  ASSERT_EQ(request.constants_size(), 8);
  EXPECT_EQ(request.constants(0).value().integer(), 1024);
  EXPECT_TRUE(request.constants(1).value().boolean());
  EXPECT_EQ(request.constants(2).value().real(), 1e-6);
  EXPECT_EQ(request.constants(3).value().text(), "fp16");
  EXPECT_EQ(request.constants(4).value().dtype(), "fp16");
  EXPECT_EQ(request.constants(5).value().function(), "gelu");
  EXPECT_TRUE(request.constants(6).value().has_none());
  EXPECT_EQ(request.constants(7).value().tuple().items_size(), 2);
}

TEST(Manifest, SaysWhereAMistakeIs) {
  struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"modules:\n  - paht: add.py\n", "m.yaml:2:5: a module has no 'paht'"},
      {"modules:\n  - path: sub.py\n", "m.yaml:2:11: there is no file sub.py"},
      {"modules:\n  - path: add.py\n", "m.yaml:2:5: a module has 'kernels'"},
      {"modules:\n  - path: add.py\n    kernels:\n      - signature: []\n",
       "m.yaml:4:9: a kernel has a name"},
      {"modules:\n  - path: add.py\n    kernels:\n      - name: k\n        config: x\n",
       "m.yaml:5:17: a whole number"},
      {"modules: 3\n", "m.yaml:1:10: 'modules' with a list"},
      {"ops: []\n", "m.yaml:1:1: the manifest has no 'ops'"},
      {"modules: [\n", "m.yaml:2:"},
  };
  for (const auto& c : cases) {
    absl::Status status = Parse(c.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_NE(std::string(status.message()).find(c.message), std::string::npos) << c.text << status;
  }
}

}  // namespace
}  // namespace tessera::server
