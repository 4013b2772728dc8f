// mixed_load --address=unix:/path --kernels=FILE [--seconds=N|--rounds=N] [--clients=N] [--seed=N]
// [--rate=N] Prints a JSON report; exit status 1 if anything happened that should not have.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "tests/soak/mixed_load.h"

int main(int argc, char** argv) {
  tessera::MixedLoadOptions options;
  std::string kernels = "tests/integration/kernels/fused.py";
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    int seconds = 0;
    bool known = true;
    if (absl::ConsumePrefix(&flag, "--address="))
      options.address = std::string(flag);
    else if (absl::ConsumePrefix(&flag, "--kernels="))
      kernels = std::string(flag);
    else if (absl::ConsumePrefix(&flag, "--seconds=")) {
      known = absl::SimpleAtoi(flag, &seconds);
      options.duration = absl::Seconds(seconds);
    } else if (absl::ConsumePrefix(&flag, "--rounds="))
      known = absl::SimpleAtoi(flag, &options.rounds);
    else if (absl::ConsumePrefix(&flag, "--clients="))
      known = absl::SimpleAtoi(flag, &options.clients);
    else if (absl::ConsumePrefix(&flag, "--seed="))
      known = absl::SimpleAtoi(flag, &options.seed);
    else if (absl::ConsumePrefix(&flag, "--rate="))
      known = absl::SimpleAtod(flag, &options.launches_per_second);
    else if (flag == "--no-tune")
      options.tune = false;
    else if (flag == "--no-mistakes")
      options.mistakes = false;
    else
      known = false;
    if (!known) {
      std::cerr << "mixed_load: '" << argv[i] << "' is not understood\n";
      return 2;
    }
  }
  std::ifstream file(kernels);
  std::stringstream text;
  text << file.rdbuf();
  options.kernels = text.str();
  if (options.kernels.empty()) {
    std::cerr << "mixed_load: cannot read " << kernels << "\n";
    return 2;
  }
  absl::StatusOr<tessera::MixedLoadReport> report = tessera::RunMixedLoad(options);
  if (!report.ok()) {
    std::cerr << "mixed_load: " << report.status() << "\n";
    return 1;
  }
  std::printf(
      "{\"launches\": %llu, \"compiled\": %llu, \"refused\": %llu, \"sessions\": %llu, "
      "\"tunings\": %llu, \"errors\": {",
      static_cast<unsigned long long>(report->launches),
      static_cast<unsigned long long>(report->compiled),
      static_cast<unsigned long long>(report->refused_as_expected),
      static_cast<unsigned long long>(report->sessions),
      static_cast<unsigned long long>(report->tunings));
  const char* separator = "";
  for (const auto& [what, count] : report->errors) {
    std::printf("%s\"%s\": %llu", separator,
                absl::StrReplaceAll(what, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", " "}}).c_str(),
                static_cast<unsigned long long>(count));
    separator = ", ";
  }
  std::printf("}}\n");
  return report->errors.empty() ? 0 : 1;
}
