// Which configuration an autotuned kernel runs with, where somebody has measured or decided.
#ifndef TESSERA_SERVER_LAUNCH_CONFIG_CHOICES_H_
#define TESSERA_SERVER_LAUNCH_CONFIG_CHOICES_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "server/launch/bound_launch.h"
#include "server/launch/kernel_model.h"

namespace tessera::server {

// Thread-safe, never blocks: it is asked by every launch of an autotuned kernel.
class ConfigChoices {
 public:
  virtual ~ConfigChoices() = default;

  struct Choice {
    int index = 0;  // counts from 1; 0: a configuration that the kernel's list no longer has
    std::shared_ptr<const KernelModel::Config> config;  // null: nothing is known for the bucket
  };
  virtual Choice Find(const KernelModel& kernel, absl::string_view bucket,
                      const Device& device) const = 0;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_CONFIG_CHOICES_H_
