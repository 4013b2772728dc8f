// A line plot as SVG and as PNG, with no font and no library but zlib: it looks the same wherever
// it is made.
#ifndef TESSERA_CLIENT_CLI_BENCH_LINE_PLOT_H_
#define TESSERA_CLIENT_CLI_BENCH_LINE_PLOT_H_

#include <string>
#include <utility>
#include <vector>

namespace tessera::cli {

struct LinePlot {
  struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;  // by rising x
  };
  std::string title, x_label, y_label;
  std::vector<Series> series;  // at most ten
};

std::string ToSvg(const LinePlot& plot);
std::string ToPng(const LinePlot& plot);  // the file's bytes

}  // namespace tessera::cli

#endif  // TESSERA_CLIENT_CLI_BENCH_LINE_PLOT_H_
