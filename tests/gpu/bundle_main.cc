// One binary for a GPU machine, called by the name of what it is to be: LLVM is in it once.
//
// tesserad, tessera, cuda_executor_test, gpu_runtime_test, gpu_conformance_test, serving_test, launch_latency.
// What these start of themselves is told by its flags.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>

int TesseradMain(int argc, char** argv);
int TesseraMain(int argc, char** argv);
int CudaExecutorTestMain(int argc, char** argv);
int GpuRuntimeTestMain(int argc, char** argv);
int LaunchLatencyMain(int argc, char** argv);
int ServingTestMain(int argc, char** argv);

namespace {

constexpr char kExecutorTests[] = "CudaExecutorTest.*:CudaStatusTest.*:GpuTest.*";
constexpr char kRuntimeTests[] = "GpuRuntimeTest.*";
constexpr char kServingTests[] = "ServingTest.*";

int GpuConformanceTestMain(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

bool HasFlag(int argc, char** argv, const char* prefix) {
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], prefix, std::strlen(prefix)) == 0) return true;
  return false;
}

std::string NameOf(int argc, char** argv) {
  if (HasFlag(argc, argv, "--role=")) return "tesserad";
  if (HasFlag(argc, argv, "--ping-pong=")) return "launch_latency";
  if (HasFlag(argc, argv, "--ptx-daemon")) return "gpu_runtime_test";
  if (HasFlag(argc, argv, "--executor-fd="))
    return HasFlag(argc, argv, "--gpu=") ? "gpu_runtime_test" : "cuda_executor_test";
  const std::string path = argv[0];
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = NameOf(argc, argv);
  if (name == "tesserad") return TesseradMain(argc, argv);
  if (name == "tessera") return TesseraMain(argc, argv);
  if (name == "launch_latency") return LaunchLatencyMain(argc, argv);
  // Suites of all tests are in this binary; a --gtest_filter of the caller wins.
  if (name == "cuda_executor_test") {
    ::testing::GTEST_FLAG(filter) = kExecutorTests;
    return CudaExecutorTestMain(argc, argv);
  }
  if (name == "gpu_runtime_test") {
    ::testing::GTEST_FLAG(filter) = kRuntimeTests;
    return GpuRuntimeTestMain(argc, argv);
  }
  if (name == "serving_test") {
    ::testing::GTEST_FLAG(filter) = kServingTests;
    return ServingTestMain(argc, argv);
  }
  if (name == "gpu_conformance_test") {
    ::testing::GTEST_FLAG(filter) =
        std::string("-") + kExecutorTests + ":" + kRuntimeTests + ":" + kServingTests;
    return GpuConformanceTestMain(argc, argv);
  }
  std::fprintf(stderr, "this binary is called by one of the names beside it, not as '%s'\n",
               name.c_str());
  return 2;
}
