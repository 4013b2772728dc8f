// Reads and writes NumPy's .npy files (format 1.0 to 3.0), keeping their order and strides.
// Source: numpy.lib.format, "NEP 1: a simple file format for NumPy arrays".
#ifndef TESSERA_CLIENT_CLI_NPY_H_
#define TESSERA_CLIENT_CLI_NPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::cli {

struct NpyArray {
  std::string header;  // the file's bytes before the data, written back as they were
  std::string descr;   // "<f2", "|u1", "|V2"
  bool fortran_order = false;
  std::vector<int64_t> shape;
  std::string data;    // elements as they lie in the file

  int64_t elements() const;
  std::vector<int64_t> strides() const;  // in elements
};

// NOT_FOUND, or INVALID_ARGUMENT that says what is wrong with the file. Big-endian data is refused.
absl::StatusOr<NpyArray> ReadNpy(const std::string& path);
// Writes header and data through a temporary file beside `path`.
absl::Status WriteNpy(const std::string& path, const NpyArray& array);

// A C-ordered array with a fresh header; `data` is zero-filled.
NpyArray MakeNpy(absl::string_view descr, std::vector<int64_t> shape, int64_t element_bytes);

// The short name of the element type that `descr` stands for by itself ("<f2" is fp16), or empty where the dtype
// must be named (|V1, |V2).
std::string DTypeOfDescr(absl::string_view descr);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_NPY_H_
