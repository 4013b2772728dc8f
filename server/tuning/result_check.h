// Whether a candidate's result is the default's, up to rounding. Pure.
#ifndef TESSERA_SERVER_TUNING_RESULT_CHECK_H_
#define TESSERA_SERVER_TUNING_RESULT_CHECK_H_

#include <string>

#include "absl/types/span.h"
#include "base/dtype.h"

namespace tessera::server {

// Compares `got` with `want`, elements of `dtype` (a part of one at the end is compared as bytes). Empty: they agree. Else
// what differs: "element 17 is 3.5, not 1.25", "relative error 0.3".
//
// Integers must be equal. Floats: NaN where the other is NaN, infinities with their sign, and |got - want| / |want| (2-norms
// over the finite elements; each element also within a tenth of itself and the root mean square) within 1e-9 (fp64), 1e-3 (fp32: sums in another order, operands rounded to tf32), 1e-2 (fp16,
// bf16), 0.15 (fp8): a configuration changes the order of sums, never the function.
std::string DescribeDifference(DType dtype, absl::Span<const char> want, absl::Span<const char> got);

struct Tolerance {
  double norm;     // of |got - want| / |want|
  double element;  // of one element, beside itself and the root mean square
};
Tolerance ToleranceOf(DType dtype);

// The same decision from sums over the elements: of the squared differences and the squared reference where both are finite,
// and how many elements are wrong on their own (not finite alike, or beyond Tolerance::element). What is unsure does not agree.
struct DifferenceSums {
  double error = 0, norm = 0, wrong = 0;
};
bool SumsAgree(DType dtype, const DifferenceSums& sums);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_TUNING_RESULT_CHECK_H_
