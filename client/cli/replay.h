// Replays recorded launches: folders with kernel.py, case.json and the memory before and after.
#ifndef TESSERA_CLIENT_CLI_REPLAY_H_
#define TESSERA_CLIENT_CLI_REPLAY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"

namespace tessera::cli {

enum class ReplayOutcome { kPassed, kFailed, kSkipped };

struct ReplayResult {
  ReplayOutcome outcome = ReplayOutcome::kFailed;
  std::string message;  // why: the first difference of each parameter, the error, or the reason of the skip
  std::vector<std::string> notes;  // warnings about the kernel and the launch
};

// Runs one case on a device and compares what it wrote by the tolerances of its dtypes.
ReplayResult ReplayCase(Client& client, const std::string& folder, const std::string& device);

// Every case folder below `paths`: each is a case itself or holds cases. Sorted.
std::vector<std::string> FindCases(const std::vector<std::string>& paths);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_REPLAY_H_
