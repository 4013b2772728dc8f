// Signature strings of the command line, "x=*fp16:16": what a variant knows of a parameter without
// a launch.
#ifndef TESSERA_SERVER_LAUNCH_SIGNATURE_H_
#define TESSERA_SERVER_LAUNCH_SIGNATURE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/tessera/v1/modules.pb.h"
#include "server/launch/bound_launch.h"
#include "server/launch/specialise.h"

namespace tessera::server {

struct SignatureEntry {
  std::string name;
  ParameterFacts facts;
};

// One entry: "x=*fp16:16", "n=i32:16", "flag=i1", "one=1", "bias=None", "t=(i32,*fp32)"; for
// constexpr parameters also a literal, "BLOCK=64", "FAST=True", "EPS=1e-6". INVALID_ARGUMENT says
// what is accepted.
absl::StatusOr<SignatureEntry> ParseSignatureEntry(absl::string_view text, bool is_constexpr);

// The configuration that a launch with the arguments bound so far would run with.
using ConfigChooser = absl::FunctionRef<absl::StatusOr<ConfigChoice>(const BoundLaunch& bound)>;

// Fills bound->facts, options and key from a request's arguments, signature, constants,
// configuration, defaults and heuristics. `choose` is asked where the request names no
// configuration of an autotuned kernel. Returns the configuration that was taken.
absl::StatusOr<ConfigChoice> BindSignature(const api::CompileRequest& request,
                                           const KernelModel& kernel, const Device& device,
                                           ConfigChooser choose, BoundLaunch* bound);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_SIGNATURE_H_
