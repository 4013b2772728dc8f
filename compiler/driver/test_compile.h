// Compiles kernels from source text for the interpreter and runs them, for tests.
#ifndef TESSERA_COMPILER_DRIVER_TEST_COMPILE_H_
#define TESSERA_COMPILER_DRIVER_TEST_COMPILE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "compiler/driver/driver.h"
#include "compiler/driver/interpreted_kernel.h"
#include "compiler/driver/signature/signature.h"

namespace tessera::compiler {

// A constexpr parameter's value from text: "1024", "True", "None", "1.5", else a string.
inline storage::ConstantValue ParseConstant(const std::string& text) {
  storage::ConstantValue value;
  int64_t integer;
  double real;
  if (text == "None") value.mutable_none();
  else if (text == "True" || text == "False") value.set_boolean(text == "True");
  else if (absl::SimpleAtoi(text, &integer)) value.set_integer(integer);
  else if (absl::SimpleAtod(text, &real)) value.set_real(real);
  else value.set_text(text);
  return value;
}

// `signature` as on the command line ("x=*fp32,n=i32"), `constants` "BLOCK=16,ACT=relu"; parameters in the order of the
// kernel.
inline absl::StatusOr<storage::CompileJob> MakeJob(const std::string& source, const std::string& kernel, const std::string& signature,
                                                   const std::string& constants, const std::string& target = "interpreter") {
  storage::CompileJob job;
  job.add_files()->set_path("kernel.py");
  job.mutable_files(0)->set_text(source);
  job.set_kernel(kernel);
  job.set_target(target);
  if (target == "cpu") job.set_cpu_features(HostCpuFeatures());
  std::map<std::string, storage::ParameterSpec> given;
  ASSIGN_OR_RETURN(std::vector<storage::ParameterSpec> specs, ParseSignature(signature));
  for (const storage::ParameterSpec& spec : specs) given[spec.name()] = spec;
  for (absl::string_view entry : absl::StrSplit(constants, ',', absl::SkipEmpty())) {
    std::pair<std::string, std::string> words = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    *given[words.first].mutable_constant() = ParseConstant(words.second);
  }
  std::vector<storage::Diagnostic> diagnostics;
  ASSIGN_OR_RETURN(storage::ModuleDescription module, Compiler().Describe({job.files(0)}, &diagnostics));
  for (const storage::KernelDescription& description : module.kernels()) {
    if (description.name() != kernel) continue;
    for (const storage::ParameterDescription& parameter : description.parameters()) {
      storage::ParameterSpec* spec = job.add_parameters();
      auto it = given.find(parameter.name());
      if (it != given.end()) *spec = it->second;
      else if (parameter.has_default()) *spec->mutable_constant() = parameter.default_value();
      spec->set_name(parameter.name());
    }
  }
  return job;
}

inline absl::StatusOr<std::unique_ptr<InterpretedKernel>> CompileKernel(const std::string& source, const std::string& kernel,
                                                                        const std::string& signature, const std::string& constants) {
  ASSIGN_OR_RETURN(storage::CompileJob job, MakeJob(source, kernel, signature, constants));
  std::vector<storage::Diagnostic> diagnostics;
  ASSIGN_OR_RETURN(storage::Artifact artifact, Compiler().Compile(job, &diagnostics));
  return InterpretedKernel::Load(artifact);
}

// The arguments of a launch, in the order of the entry's parameters.
class Arguments {
 public:
  template <typename T>
  Arguments& Buffer(std::vector<T>& data, const std::string& name = "buffer") {
    options.extents.push_back({reinterpret_cast<uint64_t>(data.data()), data.size() * sizeof(T), false, name});
    params.push_back(reinterpret_cast<uint64_t>(data.data()));
    return *this;
  }
  Arguments& Integer(int64_t value) {
    params.push_back(uint64_t(value));
    return *this;
  }
  Arguments& Float(float value) {
    params.push_back(0);
    std::memcpy(&params.back(), &value, sizeof value);
    return *this;
  }
  absl::Status Run(const InterpretedKernel& kernel, uint32_t x, uint32_t y = 1, uint32_t z = 1) const {
    const uint32_t grid[3] = {x, y, z};
    return kernel.Run(params.data(), grid, options);
  }

  std::vector<uint64_t> params;
  InterpretOptions options;
};

}  // namespace tessera::compiler

#endif  // TESSERA_COMPILER_DRIVER_TEST_COMPILE_H_
