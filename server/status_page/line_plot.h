// A line plot over the last minutes as inline SVG. Pure.
#ifndef TESSERA_SERVER_STATUS_PAGE_LINE_PLOT_H_
#define TESSERA_SERVER_STATUS_PAGE_LINE_PLOT_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tessera::server {

struct PlotLine {
  std::string name, css_class;                    // the class gives its colour
  std::vector<std::pair<double, double>> points;  // seconds ago, value; oldest first
  bool filled = false;
};

struct Plot {
  std::string title;
  std::vector<PlotLine> lines;
  double span_seconds = 900;
  double least_top = 0;                      // the axis reaches at least so far
  bool binary = false;                       // ticks at powers of two, for bytes
  bool logarithmic = false;                  // of a logarithmic axis values of 0 are gaps
  std::function<std::string(double)> label;  // of the axis
};

// With title, legend and axes; as wide as its place.
std::string RenderPlot(const Plot& plot);

// For text between tags and in attributes.
std::string EscapeHtml(const std::string& text);

}  // namespace tessera::server

#endif  // TESSERA_SERVER_STATUS_PAGE_LINE_PLOT_H_
