// From observed traffic to a manifest. Pure.
#ifndef TESSERA_SERVER_WARMUP_RECORD_MANIFEST_H_
#define TESSERA_SERVER_WARMUP_RECORD_MANIFEST_H_

#include <functional>
#include <string>
#include <vector>

#include "proto/storage/tunings.pb.h"
#include "proto/tessera/v1/manifest.pb.h"
#include "server/warmup/observed_traffic.h"

namespace tessera::server {

// A compile request as an entry of a manifest; its sample arguments become patterns.
tessera::v1::ManifestKernel ToEntry(const tessera::v1::CompileRequest& recipe);

struct RecordOptions {
  // Only what was launched. Otherwise integer arguments whose specialisation varied get all three
  // classes (1, multiples of 16, the rest): tomorrow's traffic has them.
  bool exact = false;
};

// How a module of the traffic is written down: by path and source, by files, or by op. False: it is
// not known any more, and what ran of it is left out.
using DescribeModule =
    std::function<bool(const std::string& module, tessera::v1::ManifestModule* to)>;

// `tunings`: of the kernels in the traffic, so that an empty cache chooses the same configurations.
tessera::v1::Manifest RecordManifest(const std::vector<ObservedVariant>& traffic,
                                     const std::vector<storage::TuningRecord>& tunings,
                                     const DescribeModule& describe, const RecordOptions& options);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_WARMUP_RECORD_MANIFEST_H_
