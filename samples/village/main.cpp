// Forty villagers chatter in a 60 Hz game loop, and the player speaks to one of them every few seconds: what it costs the
// game's frames, and how quickly everyone answers.
//
//   banter_village --model M.gguf [--npcs 40] [--seconds 30] [--work-ms 4] [--threads 1] [--frame-budget MS]
//                  [--plot village.svg | --no-plot]                           (or the model's path in BANTER_MODEL)
//
// The loop runs with the engine paused, with everyone talking, and paused again; the model is loaded throughout. A frame's
// time counts from when it should begin to the end of the game's own work, so that late wake-ups and preemption show. What the
// two paused stretches differ by is the machine's own restlessness: a rise below it says nothing.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "game_loop.h"
#include "plot.h"
#include "village.h"

namespace {

struct Options {
  const char* model = std::getenv("BANTER_MODEL");
  double seconds = 30, work_ms = 4, frame_budget_ms = 0;
  int threads = 1;
  std::string plot = "village.svg";
  VillageOptions village;
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--no-plot") {
      options.plot.clear();
      continue;
    }
    if (i + 1 == argc) return false;
    const char* value = argv[++i];
    if (name == "--model") {
      options.model = value;
    } else if (name == "--npcs") {
      options.village.villagers = static_cast<uint32_t>(std::atoi(value));
    } else if (name == "--seconds") {
      options.seconds = std::atof(value);
    } else if (name == "--work-ms") {
      options.work_ms = std::atof(value);
    } else if (name == "--threads") {
      options.threads = std::atoi(value);
    } else if (name == "--frame-budget") {
      options.frame_budget_ms = std::atof(value);
    } else if (name == "--plot") {
      options.plot = value;
    } else {
      return false;
    }
  }
  return options.village.villagers >= 1 && options.village.villagers <= 10000 && options.seconds > 0 &&
         options.work_ms > 0 && options.work_ms < 16 && options.threads >= 0;
}

bool load(banter::Engine& engine, banter::Model& model, const Options& options) {
  banter_model_config config = banter::model_config();
  config.path = options.model;
  config.path_len = BANTER_ZERO_TERMINATED;
  if (model.load(engine, config) != BANTER_OK) {
    std::fprintf(stderr, "village: %s\n", banter_last_error_message());
    return false;
  }
  for (bool ready = false, failed = false; !ready;) {
    engine.wait(1000);
    engine.dispatch([&](const banter_event& event) {
      ready = ready || event.kind == BANTER_EVENT_MODEL_READY;
      if (event.kind != BANTER_EVENT_FAILED) return;
      std::fprintf(stderr, "village: %s\n", event.text);
      failed = true;
    });
    if (failed) return false;
  }
  return true;
}

void print_frames(const char* what, const std::vector<double>& ms) {
  std::printf("%-34s p50 %7.3f   p90 %7.3f   p99 %7.3f   max %7.3f ms   (%zu frames)\n", what, quantile(ms, 0.5),
              quantile(ms, 0.9), quantile(ms, 0.99), quantile(ms, 1), ms.size());
}

void print_villagers(const Village& village) {
  std::printf("\n%-10s %7s %12s %12s %12s %12s\n", "villager", "replies", "TTFT median", "TTFT p99", "ITL median",
              "ITL p99");
  std::vector<double> ttft, player, itl, itl_p99;
  for (const Villager& v : village.villagers()) {
    std::vector<double> all = v.ttft;
    all.insert(all.end(), v.player_ttft.begin(), v.player_ttft.end());
    std::printf("%-10s %7zu %12.0f %12.0f %12.1f %12.1f\n", v.name.c_str(), all.size(), quantile(all, 0.5),
                quantile(all, 0.99), quantile(v.itl, 0.5), quantile(v.itl_p99, 1));
    ttft.insert(ttft.end(), v.ttft.begin(), v.ttft.end());
    player.insert(player.end(), v.player_ttft.begin(), v.player_ttft.end());
    itl.insert(itl.end(), v.itl.begin(), v.itl.end());
    itl_p99.insert(itl_p99.end(), v.itl_p99.begin(), v.itl_p99.end());
  }
  std::printf("\nchatter:        first token after %.0f ms (median), %.0f ms (p99), %zu replies\n", quantile(ttft, 0.5),
              quantile(ttft, 0.99), ttft.size());
  std::printf("to the player:  first token after %.0f ms (median), %.0f ms (p99), %zu replies\n", quantile(player, 0.5),
              quantile(player, 0.99), player.size());
  std::printf("between tokens: %.1f ms (median), %.1f ms (median of the replies' p99), %.1f ms (worst p99)\n",
              quantile(itl, 0.5), quantile(itl_p99, 0.5), quantile(itl_p99, 1));
}

bool run(banter::Engine& engine, banter::Model& model, const Options& options) {
  Village village(engine, model, options.village);
  if (!village.found()) return false;
  FrameWork work(options.work_ms);
  std::printf("%u villagers, %.0f s at 60 frames a second with %.1f ms of work in each\n", options.village.villagers,
              options.seconds, options.work_ms);
  const auto play_paused = [&] {
    banter_engine_set_paused(engine.get(), 1);
    const FrameTimes times = play(work, options.seconds, [](double) { return true; });
    banter_engine_set_paused(engine.get(), 0);
    return times.total;
  };
  std::vector<double> off = play_paused();
  bool ok = true;
  const FrameTimes on = play(work, options.seconds, [&](double now) {
    ok = banter_engine_begin_frame(engine.get()) == BANTER_OK && village.frame(now);
    return ok;
  });
  if (!ok) return false;
  const std::vector<double> off_again = play_paused();
  print_frames("frame time, engine off", off);
  print_frames("frame time, engine on", on.total);
  print_frames("  of it in Banter's calls", on.banter);
  print_frames("frame time, engine off again", off_again);
  const double difference = quantile(off_again, 0.99) - quantile(off, 0.99);
  off.insert(off.end(), off_again.begin(), off_again.end());
  std::printf("the 99th percentile of the frame time rises by %.3f ms (the two without the engine differ by %.3f ms)\n",
              quantile(on.total, 0.99) - quantile(off, 0.99), std::abs(difference));
  print_villagers(village);
  const banter_engine_statistics figures = engine.statistics();
  std::printf(
      "%llu replies, %llu cut short; %.1f tokens/s of all together, %.1f villagers talking on average; %.0f %% of the "
      "prompts' tokens cached, %.1f MB of memories in use\n",
      static_cast<unsigned long long>(village.replies()), static_cast<unsigned long long>(village.interrupted()),
      static_cast<double>(village.tokens()) / options.seconds, village.mean_talking(),
      village.prompt_tokens() == 0
          ? 0.0
          : 100.0 * static_cast<double>(village.cached_tokens()) / static_cast<double>(village.prompt_tokens()),
      static_cast<double>(figures.kv_bytes_used) / 1e6);
  if (village.tokens() == 0) {
    std::fprintf(stderr, "village: nobody said a word; give it more --seconds\n");
    return false;
  }
  if (options.plot.empty()) return true;
  if (!write_plot(options.plot, village.villagers())) {
    std::fprintf(stderr, "village: cannot write '%s'; choose another place with --plot\n", options.plot.c_str());
    return false;
  }
  std::printf("wrote %s\n", options.plot.c_str());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: banter_village --model M.gguf [--npcs N] [--seconds S] [--work-ms MS] [--threads N] "
                 "[--frame-budget MS] [--plot FILE.svg | --no-plot]\n");
    return 2;
  }
  if (options.model == nullptr) {
    std::fprintf(stderr, "village: give --model M.gguf, or set BANTER_MODEL\n");
    return 2;
  }
  banter_engine_config config = banter::engine_config();
  config.thread_count = options.threads;
  // Low priority for the engine's threads is the default; everyone may have a reply in progress.
  config.max_requests = 2 * options.village.villagers + 16;
  banter::Engine engine;
  banter::Model model;
  if (engine.create(&config) != BANTER_OK) {
    std::fprintf(stderr, "village: %s\n", banter_last_error_message());
    return 1;
  }
  if (options.frame_budget_ms > 0)
    banter_engine_set_frame_budget(engine.get(), static_cast<float>(options.frame_budget_ms));
  return load(engine, model, options) && run(engine, model, options) ? 0 : 1;
}
