#include "server/status_page/status_page.h"

#include <string>

#include "gtest/gtest.h"
#include "server/status_page/line_plot.h"

namespace tessera::server {
namespace {

DaemonState Busy() {
  DaemonState state;
  auto& status = state.status;
  status.set_ready(true);
  status.set_state("serving");
  status.set_launches(1234567);
  auto* kernel = status.add_kernels();
  kernel->set_name("add<&>");
  kernel->set_launches(5);
  kernel->set_seconds(0.25);
  status.mutable_warmup()->set_total(50);
  status.mutable_warmup()->set_done(49);
  status.mutable_warmup()->add_failures("m.yaml:7: add: no such thing");
  auto* event = status.add_jit_events();
  event->set_kernel("late");
  event->set_entry("- {name: late}");
  auto* tuning = status.add_tunings();
  tuning->set_kernel("matmul");
  tuning->set_reason("lowest median, clear of the noise");
  return state;
}

TEST(StatusPage, ShowsWhatIsGoingOn) {
  std::string html = RenderStatusPage(Busy(), {}, absl::UnixEpoch());
  for (const char* text :
       {"serving", "1\u202f234\u202f567", "49 of 50", "m.yaml:7: add: no such thing",
        "- {name: late}", "lowest median, clear of the noise", "add&lt;&amp;&gt;"})
    EXPECT_NE(html.find(text), std::string::npos) << text;
  EXPECT_EQ(html.find("<&>"), std::string::npos) << "names are text, not markup";
  EXPECT_EQ(html.find("<script"), std::string::npos);
}

TEST(StatusPage, IsWholeForADaemonThatHasDoneNothing) {
  std::string html = RenderStatusPage(DaemonState(), {}, absl::UnixEpoch());
  EXPECT_NE(html.find("not serving"), std::string::npos);
  EXPECT_NE(html.find("Nothing was launched yet"), std::string::npos);
  EXPECT_NE(html.find("</html>"), std::string::npos);
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_EQ(html.find("inf"), std::string::npos);
}

TEST(LinePlot, DrawsWithinItsFrame) {
  Plot plot{"title", {{"a", "", {{900, 0}, {450, 5}, {0, 10}}, true}}};
  plot.label = [](double value) { return std::to_string(static_cast<int>(value)); };
  std::string svg = RenderPlot(plot);
  EXPECT_NE(svg.find("d=\"M58.0 130.0L255.0 69.0L452.0 8.0\""), std::string::npos) << svg;
  plot.logarithmic = true;
  svg = RenderPlot(plot);
  EXPECT_NE(svg.find("d=\"M255.0"), std::string::npos) << "zero is a gap: " << svg;
  plot.lines[0].points.clear();
  EXPECT_EQ(RenderPlot(plot).find("<path"), std::string::npos);
}

}  // namespace
}  // namespace tessera::server
