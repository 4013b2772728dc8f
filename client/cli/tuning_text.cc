#include "client/cli/tuning_text.h"

#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tessera::cli {

std::string DurationText(double seconds) {
  if (seconds < 1e-3) return absl::StrFormat("%.1f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.2f ms", seconds * 1e3);
  return absl::StrFormat("%.2f s", seconds);
}

std::string ValueText(const v1::Constant& value) {
  switch (value.kind_case()) {
    case v1::Constant::kInteger:
      return absl::StrCat(value.integer());
    case v1::Constant::kUnsignedInteger:
      return absl::StrCat(value.unsigned_integer());
    case v1::Constant::kBoolean:
      return value.boolean() ? "True" : "False";
    case v1::Constant::kReal:
      return absl::StrCat(value.real());
    case v1::Constant::kText:
      return value.text();
    case v1::Constant::kDtype:
      return value.dtype();
    case v1::Constant::kNone:
      return "None";
    default:
      return value.ShortDebugString();
  }
}

std::string ShortConfigText(const v1::Config& config) {
  std::vector<std::string> parts;
  for (const v1::NamedConstant& value : config.values())
    parts.push_back(absl::StrCat(value.name(), "=", ValueText(value.value())));
  const v1::Options& options = config.options();
  if (options.num_warps() > 0) parts.push_back(absl::StrCat("num_warps=", options.num_warps()));
  if (options.num_stages() > 0) parts.push_back(absl::StrCat("num_stages=", options.num_stages()));
  if (options.num_ctas() > 0) parts.push_back(absl::StrCat("num_ctas=", options.num_ctas()));
  if (options.maxnreg() > 0) parts.push_back(absl::StrCat("maxnreg=", options.maxnreg()));
  return absl::StrJoin(parts, " ");
}

std::string TritonConfigText(const v1::Config& config) {
  std::string text;
  for (const v1::NamedConstant& value : config.values())
    absl::StrAppend(&text, value.name(), ": ", ValueText(value.value()), ", ");
  const v1::Options& options = config.options();
  return absl::StrCat(
      text, "num_warps: ", options.num_warps() == 0 ? 4 : options.num_warps(),
      ", num_ctas: ", options.num_ctas() == 0 ? 1 : options.num_ctas(),
      ", num_stages: ", options.num_stages() == 0 ? 3 : options.num_stages(),
      ", maxnreg: ", options.maxnreg() == 0 ? "None" : absl::StrCat(options.maxnreg()));
}

void PrintAutotuning(const std::string& kernel, const std::string& key, const std::string& how,
                     const v1::Config& config, bool json) {
  (json ? std::cerr : std::cout) << "Triton autotuning for function " << kernel << ",\n"
                                 << (key.empty() ? "" : absl::StrCat("with key as (", key, "),\n"))
                                 << how << ",\nbest config selected: " << TritonConfigText(config)
                                 << ";\n";
}

}  // namespace tessera::cli
