// Letters as strokes, for plots on machines that have no fonts.
#ifndef TESSERA_CLIENT_CLI_BENCH_STROKE_FONT_H_
#define TESSERA_CLIENT_CLI_BENCH_STROKE_FONT_H_

#include <string>
#include <utility>
#include <vector>

namespace tessera::cli {

using Polyline = std::vector<std::pair<double, double>>;

// ASCII text from (0, 0) to the right, y upwards; capitals are 1 high, a letter is kLetterAdvance
// wide. Characters that the font lacks are boxes.
constexpr double kLetterAdvance = 0.95;
std::vector<Polyline> Strokes(const std::string& text);

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_BENCH_STROKE_FONT_H_
