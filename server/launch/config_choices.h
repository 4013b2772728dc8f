// Which configuration an autotuned kernel runs with, where somebody has measured or decided.
#ifndef TESSERA_SERVER_LAUNCH_CONFIG_CHOICES_H_
#define TESSERA_SERVER_LAUNCH_CONFIG_CHOICES_H_

#include <memory>

#include "proto/tessera/v1/launch.pb.h"
#include "server/launch/bound_launch.h"
#include "server/launch/kernel_model.h"

namespace tessera::server {

// Thread-safe, never blocks: it is asked by every launch of an autotuned kernel.
class ConfigChoices {
 public:
  virtual ~ConfigChoices() = default;

  // Told of the launches that a choice was asked for.
  class Observer {
   public:
    virtual ~Observer() = default;
    // The launch took so long on the device, with the configuration of this index (as in Choice).
    // Thread-safe; must not block.
    virtual void Launched(int config, double kernel_seconds) = 0;
  };

  struct Choice {
    int index = 0;  // counts from 1; 0: a configuration that the kernel's list no longer has
    std::shared_ptr<const KernelModel::Config> config;  // null: nothing is known for the bucket
    std::shared_ptr<Observer> observer;                  // may be null
  };
  // `request`: the launch, for whoever wants to repeat it on copies; null: only a question, there
  // will be no launch.
  virtual Choice Find(const KernelModel& kernel, const BoundLaunch& bound,
                      const tessera::v1::LaunchRequest* request, const Device& device) = 0;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_CONFIG_CHOICES_H_
