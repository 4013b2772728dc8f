// Statuses that carry a machine-readable reason, and diagnostics where source text is at fault.
#ifndef TESSERA_SERVER_STATUS_ERROR_DETAIL_H_
#define TESSERA_SERVER_STATUS_ERROR_DETAIL_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/storage/artifacts.pb.h"
#include "proto/tessera/v1/common.pb.h"

namespace tessera::server {

namespace api = ::tessera::v1;

// `reason` in UPPER_SNAKE; `metadata` names what is concerned ("tensor" -> "x_ptr").
absl::Status Error(absl::StatusCode code, absl::string_view reason, absl::string_view message,
                   std::initializer_list<std::pair<std::string, std::string>> metadata = {});

// The status of source text that does not compile.
absl::Status SourceError(
    absl::StatusCode code, absl::string_view message,
    const google::protobuf::RepeatedPtrField<storage::Diagnostic>& diagnostics);

std::optional<api::ErrorDetail> DetailOf(const absl::Status& status);

// For keeping a status: its detail as bytes ("" if it has none), and the status made of them again.
std::string SerializedDetailOf(const absl::Status& status);
absl::Status StatusWithDetail(absl::StatusCode code, absl::string_view message,
                              absl::string_view serialized_detail);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_STATUS_ERROR_DETAIL_H_
