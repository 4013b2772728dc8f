#include "runtime/cpu/cpu_kernel_loader.h"

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

namespace tessera::runtime {
namespace {

using ::testing::HasSubstr;

// The signature of base/kernel_abi.h around `body`, which sees %params, %grid, %first, %last and %context.
std::string Entry(const std::string& body, const std::string& globals = "") {
  return globals + "\ndefine void @k(ptr %params, ptr %grid, i64 %first, i64 %last, ptr %context) {\n" + body + "\n}\n";
}

// out[i] = scale * exp(i / 1000) for each instance.
const char kScaledExp[] = R"(
entry:
  %out = load ptr, ptr %params
  %scale.p = getelementptr i8, ptr %params, i64 8
  %scale = load float, ptr %scale.p
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %loop ]
  %x = uitofp i64 %i to float
  %y = fdiv float %x, 1.0e3
  %e = call float @expf(float %y)
  %s = fmul float %e, %scale
  %p = getelementptr float, ptr %out, i64 %i
  store float %s, ptr %p
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %last
  br i1 %more, label %loop, label %end
end:
  ret void)";

std::string Compile(const std::string& text, const std::string& triple = llvm::sys::getProcessTriple()) {
  llvm::InitializeAllTargetInfos();
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, diagnostic, context);
  if (module == nullptr) {
    ADD_FAILURE() << diagnostic.getMessage().str();
    return "";
  }
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "", "", llvm::TargetOptions(), llvm::Reloc::PIC_, llvm::CodeModel::Small));
  module->setTargetTriple(triple);
  module->setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  EXPECT_FALSE(machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile));
  passes.run(*module);
  return std::string(buffer.begin(), buffer.end());
}

storage::Artifact MakeArtifact(std::string code, int parameters) {
  storage::Artifact artifact;
  artifact.set_code(std::move(code));
  artifact.mutable_metadata()->set_kernel("scaled_exp");
  artifact.mutable_metadata()->set_target("cpu");
  artifact.mutable_metadata()->set_entry_symbol("k");
  for (int i = 0; i < parameters; ++i) artifact.mutable_metadata()->add_parameters();
  return artifact;
}

storage::Artifact ScaledExp() { return MakeArtifact(Compile(Entry(kScaledExp, "declare float @expf(float)")), 2); }

Launch MakeLaunch(std::vector<float>& out, float scale) {
  Launch launch;
  launch.grid[0] = static_cast<uint32_t>(out.size());
  uint32_t bits;
  std::memcpy(&bits, &scale, 4);
  launch.params = {reinterpret_cast<uint64_t>(out.data()), bits};
  return launch;
}

class CpuKernelLoaderTest : public ::testing::Test {
 protected:
  ThreadPool pool_{2};
  std::unique_ptr<KernelLoader> loader_ = CreateCpuKernelLoader(&pool_);
};

TEST_F(CpuKernelLoaderTest, RunsAnObjectThatCallsTheMathLibrary) {
  absl::StatusOr<std::unique_ptr<LoadedKernel>> kernel = loader_->Load(ScaledExp());
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> out(1000);
  ASSERT_TRUE((*kernel)->Run(MakeLaunch(out, 3)).ok());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(out[i], expf(i / 1000.0f) * 3);
}

TEST_F(CpuKernelLoaderTest, KeepsKernelsWithEqualSymbolsApart) {
  absl::StatusOr<std::unique_ptr<LoadedKernel>> first = loader_->Load(ScaledExp());
  const std::string nop = "entry:\n  ret void";
  absl::StatusOr<std::unique_ptr<LoadedKernel>> second = loader_->Load(MakeArtifact(Compile(Entry(nop)), 2));
  ASSERT_TRUE(first.ok() && second.ok());
  std::vector<float> out(3, -1);
  ASSERT_TRUE((*second)->Run(MakeLaunch(out, 3)).ok());
  EXPECT_EQ(out[0], -1);
  ASSERT_TRUE((*first)->Run(MakeLaunch(out, 3)).ok());
  EXPECT_EQ(out[0], 3);
}

TEST_F(CpuKernelLoaderTest, LoadsAndUnloadsManyTimesFromSeveralThreads) {
  const storage::Artifact artifact = ScaledExp();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        absl::StatusOr<std::unique_ptr<LoadedKernel>> kernel = loader_->Load(artifact);
        ASSERT_TRUE(kernel.ok()) << kernel.status();
        std::vector<float> out(2);
        ASSERT_TRUE((*kernel)->Run(MakeLaunch(out, 2)).ok());
        ASSERT_EQ(out[0], 2);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CpuKernelLoaderTest, LetsKernelsOutliveTheLoader) {
  absl::StatusOr<std::unique_ptr<LoadedKernel>> kernel = loader_->Load(ScaledExp());
  ASSERT_TRUE(kernel.ok());
  loader_.reset();
  std::vector<float> out(2);
  ASSERT_TRUE((*kernel)->Run(MakeLaunch(out, 2)).ok());
  EXPECT_EQ(out[0], 2);
}

TEST_F(CpuKernelLoaderTest, RefusesSymbolsThatAreNotOffered) {
  const std::string body = "entry:\n  call void @system(ptr %params)\n  ret void";
  const absl::Status status = loader_->Load(MakeArtifact(Compile(Entry(body, "declare void @system(ptr)")), 0)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("system"));
  EXPECT_TRUE(loader_->Load(ScaledExp()).ok()) << "a failed load leaves the loader usable";
}

TEST_F(CpuKernelLoaderTest, RefusesObjectsWithoutTheirEntry) {
  storage::Artifact artifact = ScaledExp();
  artifact.mutable_metadata()->set_entry_symbol("other");
  EXPECT_EQ(loader_->Load(artifact).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CpuKernelLoaderTest, RefusesWhatIsNoObjectOfThisMachine) {
  EXPECT_EQ(loader_->Load(MakeArtifact("", 0)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(loader_->Load(MakeArtifact("not an object", 0)).status().code(), absl::StatusCode::kInvalidArgument);
  const std::string nop = "entry:\n  ret void";
#if defined(__x86_64__)
  const char* other = "aarch64-unknown-linux-gnu";
#else
  const char* other = "x86_64-unknown-linux-gnu";
#endif
  EXPECT_EQ(loader_->Load(MakeArtifact(Compile(Entry(nop), other), 0)).status().code(),
            absl::StatusCode::kInvalidArgument);
  storage::Artifact artifact = ScaledExp();
  artifact.mutable_metadata()->set_target("sm_90a");
  EXPECT_EQ(loader_->Load(artifact).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CpuKernelLoaderTest, RefusesTruncatedObjects) {
  storage::Artifact artifact = ScaledExp();
  const std::string code = artifact.code();
  for (size_t size : {code.size() / 4, code.size() / 2, code.size() - 1}) {
    artifact.set_code(code.substr(0, size));
    EXPECT_FALSE(loader_->Load(artifact).ok()) << size << " of " << code.size();
  }
}

}  // namespace
}  // namespace tessera::runtime
