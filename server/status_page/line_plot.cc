#include "server/status_page/line_plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tessera::server {
namespace {

constexpr double kWidth = 460, kHeight = 150;
constexpr double kLeft = 58, kRight = 8, kTop = 8, kBottom = 20;

// 1, 2 or 5 times a power of ten, not below `value`.
double RoundUp(double value) {
  if (value <= 0) return 1;
  double power = std::pow(10, std::floor(std::log10(value)));
  for (double step : {1.0, 2.0, 5.0, 10.0})
    if (value <= step * power * 1.000001) return step * power;
  return 10 * power;
}

class Axis {
 public:
  Axis(const Plot& plot) : logarithmic_(plot.logarithmic) {
    double most = plot.least_top, least = HUGE_VAL;
    for (const PlotLine& line : plot.lines)
      for (const auto& [age, value] : line.points) {
        most = std::max(most, value);
        if (value > 0) least = std::min(least, value);
      }
    if (!logarithmic_) {
      double unit = 1;
      while (plot.binary && most >= 1024 * unit) unit *= 1024;
      top_ = plot.binary ? unit * std::exp2(std::ceil(std::log2(std::max(most / unit, 1.0))))
                         : RoundUp(most);
      for (int i = 0; i <= 2; ++i) ticks_.push_back(top_ * i / 2);
      return;
    }
    if (least > most) least = most = 1e-6;
    bottom_ = std::floor(std::log10(least));
    top_ = std::max(std::ceil(std::log10(most)), bottom_ + 1);
    double step = std::max(1.0, std::ceil((top_ - bottom_) / 4));
    for (double power = bottom_; power <= top_ + 0.01; power += step)
      ticks_.push_back(std::pow(10, power));
  }
  double Y(double value) const {
    double share = logarithmic_ ? (std::log10(value) - bottom_) / (top_ - bottom_) : value / top_;
    return kTop + (1 - std::clamp(share, 0.0, 1.0)) * (kHeight - kTop - kBottom);
  }
  bool Shows(double value) const { return !logarithmic_ || value > 0; }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  const bool logarithmic_;
  double bottom_ = 0, top_ = 1;
  std::vector<double> ticks_;
};

double X(double age, double span) {
  return kLeft + (1 - std::clamp(age / span, 0.0, 1.0)) * (kWidth - kLeft - kRight);
}

}  // namespace

std::string EscapeHtml(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string RenderPlot(const Plot& plot) {
  Axis axis(plot);
  std::string svg = absl::StrCat("<figure class=\"plot\"><figcaption><span>",
                                 EscapeHtml(plot.title), "</span><span class=\"legend\">");
  for (const PlotLine& line : plot.lines)
    if (!line.name.empty()) {
      // The latest value, that nobody has to guess it from the line.
      std::string value = line.points.empty() ? "" : plot.label(line.points.back().second);
      absl::StrAppend(&svg, "<i class=\"", line.css_class, "\"></i>", EscapeHtml(line.name), " <b>",
                      EscapeHtml(value), "</b> ");
    }
  absl::StrAppend(&svg, "</span></figcaption>",
                  absl::StrFormat("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\">",
                                  kWidth, kHeight, EscapeHtml(plot.title)));
  for (double tick : axis.ticks()) {
    double y = axis.Y(tick);
    absl::StrAppendFormat(
        &svg,
        "<line class=\"grid\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/>"
        "<text class=\"tick\" x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
        kLeft, kWidth - kRight, y, y, kLeft - 6, y + 3.5, EscapeHtml(plot.label(tick)));
  }
  int step = plot.span_seconds > 300 ? 5 : 1;
  for (int minutes = 0; minutes <= static_cast<int>(plot.span_seconds / 60); minutes += step) {
    double x = X(minutes * 60, plot.span_seconds);
    absl::StrAppendFormat(&svg,
                          "<text class=\"tick\" x=\"%.1f\" y=\"%.0f\" text-anchor=\"%s\">%s</text>",
                          x, kHeight - 5, minutes == 0 ? "end" : "middle",
                          minutes == 0 ? "now" : absl::StrCat("-", minutes, " min"));
  }
  for (const PlotLine& line : plot.lines) {
    std::string path;
    double first = 0, last = 0;
    bool pen_down = false, any = false;
    for (const auto& [age, value] : line.points) {
      if (age > plot.span_seconds || !axis.Shows(value)) {
        pen_down = false;
        continue;
      }
      double x = X(age, plot.span_seconds);
      absl::StrAppendFormat(&path, "%c%.1f %.1f", pen_down ? 'L' : 'M', x, axis.Y(value));
      if (!any) first = x;
      any = true;
      last = x;
      pen_down = true;
    }
    if (!any) continue;
    if (line.filled)
      absl::StrAppendFormat(&svg, "<path class=\"area %s\" d=\"%sL%.1f %.1fL%.1f %.1fZ\"/>",
                            line.css_class, path, last, kHeight - kBottom, first,
                            kHeight - kBottom);
    absl::StrAppendFormat(&svg, "<path class=\"line %s\" d=\"%s\"/>", line.css_class, path);
  }
  return svg + "</svg></figure>";
}

}  // namespace tessera::server
