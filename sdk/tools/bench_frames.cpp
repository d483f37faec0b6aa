// banter bench --frame-budget: what characters can say within a budget of each frame of a game at 60 Hz, and how well the
// engine keeps to it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench_npcs.h"

namespace banter::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Frames {
  std::vector<double> busy_ms;  // computing in each frame
  double step_ms = 0;           // mean of a step
  double seconds = 0;
  uint64_t prefill_tokens = 0, decode_tokens = 0;
};

/** Plays for `seconds`; a character whose reply has ended gets a new prompt. */
bool play(EngineSession& session, const NpcBenchOptions& options, double seconds, uint32_t vocabulary, Frames& frames) {
  std::mt19937_64 random(options.counts[0]);
  std::vector<Heard> all(options.counts[0]);
  const auto start = std::chrono::steady_clock::now();
  auto next = start;
  const banter_engine_statistics first = figures(session);
  banter_engine_statistics before = first;
  const double begin = now_ms();
  while (now_ms() - begin < seconds * 1000) {
    banter_engine_begin_frame(session.engine());
    if (!hear(session, all, 0)) return false;
    for (Heard& heard : all) {
      const bool silent = heard.request == 0 || heard.ended >= 0;
      const std::vector<int32_t> tokens =
          silent ? random_tokens(random, vocabulary, options.prompt) : std::vector<int32_t>();
      if (silent && !submit_tokens(session, tokens, options.generate, heard)) return false;
    }
    next += std::chrono::microseconds(16667);
    std::this_thread::sleep_until(next);
    const banter_engine_statistics now = figures(session);
    const double busy = static_cast<double>(now.busy_microseconds - before.busy_microseconds) / 1000;
    frames.busy_ms.push_back(busy);
    before = now;
  }
  frames.seconds = (now_ms() - begin) / 1000;
  frames.step_ms = static_cast<double>(before.busy_microseconds - first.busy_microseconds) / 1000 /
                   static_cast<double>(std::max<uint64_t>(1, before.steps - first.steps));
  frames.prefill_tokens = before.prefill_tokens - first.prefill_tokens;
  frames.decode_tokens = before.decode_tokens - first.decode_tokens;
  for (const Heard& heard : all) banter_cancel(session.engine(), heard.request);
  return true;
}

Json spread(const std::vector<double>& values) {
  return {{"p50", quantile(values, 0.5)},
          {"p90", quantile(values, 0.9)},
          {"p99", quantile(values, 0.99)},
          {"max", quantile(values, 1)}};
}

void print_spread(const char* what, const std::vector<double>& values) {
  std::printf("%-44s p50 %7.2f   p90 %7.2f   p99 %7.2f   max %7.2f ms\n", what, quantile(values, 0.5),
              quantile(values, 0.9), quantile(values, 0.99), quantile(values, 1));
}

}  // namespace

int bench_frames(const NpcBenchOptions& options) {
  EngineSession session;
  banter_model_info info;
  if (!open_for_npcs(session, options, options.counts[0], info)) return 1;
  banter_engine_set_frame_budget(session.engine(), static_cast<float>(options.frame_budget_ms));
  Frames warm_up, frames;
  // The engine learns what its steps cost.
  if (!play(session, options, std::min(1.0, options.seconds / 4), info.vocabulary, warm_up)) return 1;
  if (!play(session, options, options.seconds, info.vocabulary, frames)) return 1;

  double mean = 0, over = 0;
  std::vector<double> overrun;
  for (const double busy : frames.busy_ms) {
    mean += busy / static_cast<double>(frames.busy_ms.size());
    overrun.push_back(std::max(0.0, busy - options.frame_budget_ms));
    over += overrun.back() > 0 ? 1.0 / static_cast<double>(frames.busy_ms.size()) : 0;
  }
  const double prefill = static_cast<double>(frames.prefill_tokens) / frames.seconds;
  const double decode = static_cast<double>(frames.decode_tokens) / frames.seconds;
  if (options.json) {
    const Json result = {{"model", info.name},
                         {"backend", info.backend},
                         {"frame_budget_ms", options.frame_budget_ms},
                         {"npcs", options.counts[0]},
                         {"seconds", frames.seconds},
                         {"prefill_tokens_per_second", prefill},
                         {"decode_tokens_per_second", decode},
                         {"busy_ms_per_frame_mean", mean},
                         {"frames_over_budget_fraction", over},
                         {"busy_ms_per_frame", spread(frames.busy_ms)},
                         {"overrun_ms", spread(overrun)},
                         {"step_ms_mean", frames.step_ms}};
    std::printf("%s\n", result.dump().c_str());
    return 0;
  }
  std::printf("%s on %s: %u characters, %.2f ms of each frame at 60 Hz, for %.0f s\n", info.name, info.backend,
              options.counts[0], options.frame_budget_ms, frames.seconds);
  std::printf(
      "prefill %.1f tokens/s and decode %.1f tokens/s; %.2f ms a frame on average, %.1f %% of the frames over\n",
      prefill, decode, mean, over * 100);
  print_spread("computing in a frame", frames.busy_ms);
  print_spread("beyond the budget", overrun);
  std::printf("%-44s mean %6.2f ms\n", "a step", frames.step_ms);
  return 0;
}

}  // namespace banter::tools
