// The arguments of `tessera launch` and its relatives: words in, a launch request with its memory out.
#ifndef TESSERA_CLIENT_CLI_LAUNCH_ARGUMENTS_H_
#define TESSERA_CLIENT_CLI_LAUNCH_ARGUMENTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/bench/device_choice.h"
#include "client/cli/npy.h"
#include "client/cpp/client.h"

namespace tessera::cli {

// As the command line gives them.
struct LaunchWords {
  std::string kernel;                // FILE.py:KERNEL
  std::vector<std::string> modules;  // more files of the module
  std::string grid;                  // EXPR[,EXPR[,EXPR]]
  std::vector<std::string> args;     // NAME=VALUE
  std::vector<std::string> constexprs;
  std::string config;                // index, or JSON
  std::string device;
  uint32_t num_warps = 0, num_stages = 0, num_ctas = 0, maxnreg = 0;
  std::vector<std::string> options;  // KEY=VALUE
  std::string program_order;         // sequential, random, random:SEED
};

// A launch ready to be sent, and the arrays it works on.
class PreparedLaunch {
 public:
  // Reads the files, registers the module, copies the arrays into shared memory.
  static absl::StatusOr<std::unique_ptr<PreparedLaunch>> Make(Client& client, const LaunchWords& words);

  const v1::LaunchRequest& request() const { return request_; }
  v1::LaunchRequest& request() { return request_; }
  const v1::Kernel& kernel() const { return kernel_; }
  // Puts the arrays into the memory of a GPU, where kernels reach them at full speed; WriteBack knows nothing of it.
  absl::Status MoveTo(Client& client, const DeviceChoice& device);
  // Writes the out and inout arrays back to their files.
  absl::Status WriteBack();

 private:
  absl::Status AddArgument(Client& client, absl::string_view text);

  struct Array {
    std::string path;
    NpyArray npy;
    std::unique_ptr<SharedBuffer> buffer;
    bool written = false;
  };
  v1::LaunchRequest request_;
  v1::Kernel kernel_;
  std::vector<Array> arrays_;
};

// The seed of a random order of programs; 0: in order. "random" draws a seed.
absl::StatusOr<uint64_t> ParseProgramOrder(const std::string& text);

// Fills options from the words (--num-warps and so on) and the environment.
absl::Status SetOptions(const LaunchWords& words, v1::Options* options);
// "--config INDEX" or JSON with configuration values and options.
absl::Status SetConfig(const std::string& config, v1::LaunchRequest* request);
absl::StatusOr<std::vector<v1::NamedConstant>> ParseConstexprs(const std::vector<std::string>& words);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_LAUNCH_ARGUMENTS_H_
