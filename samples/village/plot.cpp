#include "plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "game_loop.h"

namespace {

constexpr double kLeft = 70, kWidth = 860, kHeight = 190, kGap = 90, kTop = 60;

struct Bar {
  double value = 0, worst = 0;  // ms
  std::vector<double> marks;    // player-facing replies
};

/** The least of 1, 2, 5, 10, 20, … that is not below `value`. */
double round_up(double value) {
  double step = std::pow(10, std::floor(std::log10(std::max(value, 1.0))));
  for (const double factor : {1.0, 2.0, 5.0, 10.0})
    if (step * factor >= value) return step * factor;
  return step * 10;
}

void chart(std::FILE* file, double top, const char* title, const std::vector<Bar>& bars) {
  double most = 1;
  for (const Bar& bar : bars) {
    most = std::max({most, bar.value, bar.worst});
    for (const double mark : bar.marks) most = std::max(most, mark);
  }
  most = round_up(most);
  const double bottom = top + kHeight, slot = kWidth / static_cast<double>(std::max<size_t>(bars.size(), 1));
  const auto y = [&](double value) { return bottom - kHeight * value / most; };
  std::fprintf(file, "<text x=\"%.0f\" y=\"%.0f\" font-weight=\"bold\">%s</text>\n", kLeft, top - 12, title);
  for (int i = 0; i <= 4; ++i) {
    const double value = most * i / 4;
    std::fprintf(file, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>", kLeft, kLeft + kWidth,
                 y(value), y(value));
    std::fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", kLeft - 6, y(value) + 4, value);
  }
  for (size_t i = 0; i < bars.size(); ++i) {
    const double x = kLeft + slot * static_cast<double>(i) + slot * 0.15, middle = x + slot * 0.35;
    std::fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#4878a8\"/>", x,
                 y(bars[i].value), slot * 0.7, bottom - y(bars[i].value));
    std::fprintf(file, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#20303f\" stroke-width=\"2\"/>",
                 x, x + slot * 0.7, y(bars[i].worst), y(bars[i].worst));
    for (const double mark : bars[i].marks)
      std::fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"#d9822b\"/>", middle, y(mark));
    if (i % 5 == 0 || bars.size() <= 20)
      std::fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%zu</text>", middle, bottom + 16, i + 1);
    std::fprintf(file, "\n");
  }
}

}  // namespace

bool write_plot(const std::string& path, const std::vector<Villager>& villagers) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  std::vector<Bar> first(villagers.size()), between(villagers.size());
  for (size_t i = 0; i < villagers.size(); ++i) {
    first[i] = {quantile(villagers[i].ttft, 0.5), quantile(villagers[i].ttft, 1), villagers[i].player_ttft};
    between[i] = {quantile(villagers[i].itl, 0.5), quantile(villagers[i].itl_p99, 1), {}};
  }
  const double width = kLeft + kWidth + 30, height = kTop + 2 * kHeight + kGap + 50;
  std::fprintf(
      file,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      width, height, width, height);
  chart(file, kTop,
        "Time to the first token, ms: median (bar) and worst (line) of chatter, replies to the player (dots)", first);
  chart(file, kTop + kHeight + kGap,
        "Time between tokens, ms: median (bar) and worst 99th percentile of a reply (line)", between);
  std::fprintf(file, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">villager</text>\n</svg>\n", kLeft + kWidth / 2,
               height - 10);
  return std::fclose(file) == 0;
}
