// How long the game's calls take while the engine is saturated: the distribution of each call's time.
//
//   banter_bench_abi --model M.gguf [--seconds S] [--npcs N] [--threads K] [--json]
//
// The engine works without pause (every character always has a reply to give) while this thread plays a 60 Hz game: per
// frame one poll, a few submissions and cancels. Preemption by other programs shows in the highest percentiles; compare p50
// and p99 with the bounds that README gives, on a machine with an idle core.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "banter/banter.hpp"

namespace {

using Clock = std::chrono::steady_clock;

/** Times of one kind of call. Memory is reserved, so that measuring costs no allocation. */
struct Series {
  const char* name;
  std::vector<uint32_t> ns;

  explicit Series(const char* what) : name(what) { ns.reserve(1 << 20); }
  template <class F>
  auto time(F&& call) {
    const Clock::time_point start = Clock::now();
    auto result = call();
    add(Clock::now() - start);
    return result;
  }
  void add(Clock::duration taken) {
    const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count();
    if (ns.size() < ns.capacity()) ns.push_back(static_cast<uint32_t>(std::min<int64_t>(count, UINT32_MAX)));
  }
  double quantile_us(double q) const {
    return ns.empty() ? 0 : ns[static_cast<size_t>(q * static_cast<double>(ns.size() - 1))] / 1000.0;
  }
};

struct Bench {
  banter::Engine engine;
  banter::Model model;
  std::vector<banter::Npc> npcs;
  Series say{"say"}, complete{"complete"}, refused{"busy"}, cancel{"cancel"}, add_turn{"add_turn"}, poll{"poll"},
      clock{"(the clock)"};
  static constexpr size_t kInFlight = 48;
  banter_request_id in_flight[kInFlight] = {};
  uint64_t submitted = 0, frames = 0;

  bool open(const std::string& path, int threads, int count);
  template <class F>
  void submit(Series& series, F&& call);
  void frame(uint64_t number);
  void run(double seconds);
  void report(bool json);
};

bool Bench::open(const std::string& path, int threads, int count) {
  banter_engine_config config = banter::engine_config();
  config.thread_count = threads;
  if (engine.create(&config) != BANTER_OK || model.load(engine, path) != BANTER_OK) return false;
  for (bool ready = false; !ready;) {
    engine.wait(1000);
    bool failed = false;
    engine.dispatch([&](const banter_event& event) {
      ready = ready || event.kind == BANTER_EVENT_MODEL_READY;
      if (event.kind == BANTER_EVENT_FAILED) {
        std::fprintf(stderr, "%s\n", event.text);
        failed = true;
      }
    });
    if (failed) return false;
  }
  npcs.resize(static_cast<size_t>(count));
  for (banter::Npc& npc : npcs) {
    if (npc.create(model, "You are a villager who talks without end.") != BANTER_OK) return false;
  }
  return true;
}

/** Submits, keeping about kInFlight requests alive by cancelling the oldest. */
template <class F>
void Bench::submit(Series& series, F&& call) {
  banter_request_id request = 0;
  const Clock::time_point start = Clock::now();
  const banter_result code = call(request);
  const Clock::duration taken = Clock::now() - start;
  (code == BANTER_OK ? series : refused).add(taken);
  if (code != BANTER_OK) return;
  banter_request_id& place = in_flight[submitted++ % kInFlight];
  if (place != 0) cancel.time([&] { return engine.cancel(place); });
  place = request;
}

void Bench::frame(uint64_t number) {
  static const std::string kWords =
      "Good evening! What is the news from the road, and who came by today? I have walked since dawn, and I am hungry.";
  banter_request_config config = banter::request_config();
  config.flags = BANTER_REQUEST_IGNORE_END;
  config.max_tokens = 64;
  banter_event events[32];
  clock.time([] { return 0; });
  poll.time([&] { return engine.poll(events); });
  banter::Npc& npc = npcs[number % npcs.size()];
  // As a game has it: what the player said has just been put together.
  const std::string words = kWords + std::to_string(number);
  submit(say, [&](banter_request_id& request) { return npc.say(words, request, &config); });
  submit(complete, [&](banter_request_id& request) { return model.complete(words, request, &config); });
  add_turn.time([&] { return npcs[(number + 1) % npcs.size()].add_turn(BANTER_ROLE_USER, "The door creaks."); });
  if (number % 16 == 0) (void)npc.reset_turns();
}

void Bench::run(double seconds) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Clock::time_point next = Clock::now();
  for (; Clock::now() < end; ++frames) {
    frame(frames);
    next += std::chrono::milliseconds(4);  // four frames in one: more calls in the same time
    std::this_thread::sleep_until(next);
  }
}

void Bench::report(bool json) {
  const banter_engine_statistics figures = engine.statistics();
  std::printf("%llu frames, %llu requests, %llu tokens computed\n", static_cast<unsigned long long>(frames),
              static_cast<unsigned long long>(figures.requests_submitted),

              static_cast<unsigned long long>(figures.prefill_tokens + figures.decode_tokens));
  std::printf("%-12s %9s %9s %9s %9s %9s %9s\n", "call", "count", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us");
  std::string line = "{";
  for (Series* series : {&clock, &poll, &say, &complete, &cancel, &add_turn, &refused}) {
    std::sort(series->ns.begin(), series->ns.end());
    std::printf("%-12s %9zu %9.3f %9.3f %9.3f %9.3f %9.3f\n", series->name, series->ns.size(), series->quantile_us(0.5),
                series->quantile_us(0.9), series->quantile_us(0.99), series->quantile_us(0.999),
                series->quantile_us(1));
    if (series == &clock) continue;
    char part[160];
    std::snprintf(part, sizeof part, "%s\"%s\": {\"count\": %zu, \"p50_us\": %.3f, \"p99_us\": %.3f, \"max_us\": %.3f}",
                  line.size() > 1 ? ", " : "", series->name, series->ns.size(), series->quantile_us(0.5),
                  series->quantile_us(0.99), series->quantile_us(1));
    line += part;
  }
  if (json) std::printf("%s}\n", line.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times the calls of the C ABI while the engine is saturated.");
  std::string path;
  double seconds = 10;
  int npcs = 16, threads = 0;
  bool json = false;
  app.add_option("--model", path, "GGUF file")->required()->envname("BANTER_MODEL");
  app.add_option("--seconds", seconds, "how long to measure");
  app.add_option("--npcs", npcs, "characters")->check(CLI::Range(1, 64));
  app.add_option("--threads", threads, "threads of the engine; 0 = its default");
  app.add_flag("--json", json, "print one JSON object as the last line");
  CLI11_PARSE(app, argc, argv);
  Bench bench;
  if (!bench.open(path, threads, npcs)) {
    std::fprintf(stderr, "banter_bench_abi: %s\n", banter_last_error_message());
    return 1;
  }
  bench.run(seconds);
  bench.report(json);
  return 0;
}
