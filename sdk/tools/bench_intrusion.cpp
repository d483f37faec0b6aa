// banter bench --intrude: what streaming characters notice when somebody comes with a long prompt.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench_npcs.h"

namespace banter::tools {
namespace {

using Json = nlohmann::ordered_json;

/** When each of the streams was last heard of, and the gaps between. */
struct Stream {
  banter_request_id request = 0;
  double last = -1;
  std::vector<double> before, during;
};

/** Takes events until `done`; gaps go to `during` of each stream, or to `before`. False: the reason was printed. */
template <class F>
bool listen(EngineSession& session, std::vector<Stream>& streams, Heard& intruder, bool is_during, F&& done) {
  while (!done()) {
    banter_wait(session.engine(), 1000);
    banter_event events[64];
    uint32_t count = 0;
    if (banter_poll(session.engine(), events, sizeof events[0], 64, &count) != BANTER_OK) return false;
    const double now = now_ms();
    for (uint32_t i = 0; i < count; ++i) {
      const banter_event& event = events[i];
      if (event.kind == BANTER_EVENT_FAILED) {
        std::fprintf(stderr, "banter bench: %s\n", event.text);
        return false;
      }
      if (event.request == intruder.request && event.token_count > 0 && intruder.first < 0) intruder.first = now;
      for (Stream& stream : streams) {
        if (stream.request != event.request || event.token_count == 0) continue;
        // A token without text of its own (half a character) comes with the next: the gap is that of so many tokens.
        if (stream.last >= 0)
          (is_during ? stream.during : stream.before).push_back((now - stream.last) / event.token_count);
        stream.last = now;
      }
    }
  }
  return true;
}

}  // namespace

int bench_intrusion(const NpcBenchOptions& options) {
  constexpr size_t kGapsBefore = 40;
  NpcBenchOptions sized = options;
  sized.prompt = std::max(options.prompt, options.intruder);
  // The streams must outlast the intruder's prefill.
  const auto reply = static_cast<uint32_t>(2 * kGapsBefore + options.intruder);
  sized.generate = reply;
  const uint32_t count = options.counts[0];
  EngineSession session;
  banter_model_info info;
  if (!open_for_npcs(session, sized, count + 1, info)) return 1;
  std::mt19937_64 random(1);
  std::vector<Stream> streams(count);
  Heard intruder;
  for (Stream& stream : streams) {
    Heard heard;
    if (!submit_tokens(session, random_tokens(random, info.vocabulary, options.prompt), reply, heard)) return 1;
    stream.request = heard.request;
  }
  const auto enough = [&] {
    return std::all_of(streams.begin(), streams.end(), [](const Stream& s) { return s.before.size() >= kGapsBefore; });
  };
  if (!listen(session, streams, intruder, false, enough)) return 1;
  if (!submit_tokens(session, random_tokens(random, info.vocabulary, options.intruder), 1, intruder)) return 1;
  if (!listen(session, streams, intruder, true, [&] { return intruder.first >= 0; })) return 1;
  for (const Stream& stream : streams) banter_cancel(session.engine(), stream.request);

  std::vector<double> before, during;
  for (const Stream& stream : streams) {
    before.insert(before.end(), stream.before.begin() + kGapsBefore / 2, stream.before.end());
    during.insert(during.end(), stream.during.begin(), stream.during.end());
  }
  const double median = quantile(before, 0.5), p99 = quantile(during, 0.99), worst = quantile(during, 1);
  const double ratio = median > 0 ? worst / median : 0;
  if (options.json) {
    const Json result = {{"model", info.name},
                         {"npcs", count},
                         {"intruder_tokens", options.intruder},
                         {"gap_before_ms", {{"p50", median}, {"max", quantile(before, 1)}}},
                         {"gap_during_ms", {{"p50", quantile(during, 0.5)}, {"p99", p99}, {"max", worst}}},
                         {"worst_ratio", ratio},
                         {"intruder_ttft_ms", intruder.first - intruder.submitted}};
    std::printf("%s\n", result.dump().c_str());
    return 0;
  }
  std::printf("%s on %s: %u characters stream, then a prompt of %u tokens comes\n", info.name, info.backend, count,
              options.intruder);
  std::printf("gap between a character's tokens before: median %.1f ms, worst %.1f ms\n", median, quantile(before, 1));
  std::printf("while the prompt is computed:            median %.1f ms, 99 %% %.1f ms, worst %.1f ms (%.1f times)\n",
              quantile(during, 0.5), p99, worst, ratio);
  std::printf("the prompt's first token comes after %.0f ms\n", intruder.first - intruder.submitted);
  return 0;
}

}  // namespace banter::tools
