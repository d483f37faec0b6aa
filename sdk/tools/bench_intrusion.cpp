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
  std::vector<double> before, during, after;
};
using Gaps = std::vector<double> Stream::*;

/** Takes events until `done`; gaps go to `gaps` of each stream. False: the reason was printed. */
template <class F>
bool listen(EngineSession& session, std::vector<Stream>& streams, Heard& intruder, Gaps gaps, F&& done) {
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
        if (stream.last >= 0) (stream.*gaps).push_back((now - stream.last) / event.token_count);
        stream.last = now;
      }
    }
  }
  return true;
}

void report(const NpcBenchOptions& options, const banter_model_info& info, const std::vector<double>& before,
            const std::vector<double>& during, const std::vector<double>& after, double ttft) {
  const double short_texts = quantile(before, 0.5), long_texts = quantile(after, 0.5), worst = quantile(during, 1);
  const auto times = [](double x, double of) { return of > 0 ? x / of : 0; };
  if (options.json) {
    const auto gaps = [](const std::vector<double>& ms) {
      return Json{{"p50", quantile(ms, 0.5)}, {"p99", quantile(ms, 0.99)}, {"max", quantile(ms, 1)}};
    };
    const Json result = {{"model", info.name},
                         {"npcs", options.counts[0]},
                         {"intruder_tokens", options.intruder},
                         {"gap_before_ms", gaps(before)},
                         {"gap_during_ms", gaps(during)},
                         {"gap_after_ms", gaps(after)},
                         {"worst_ratio", times(worst, short_texts)},
                         {"worst_ratio_after", times(worst, long_texts)},
                         {"intruder_ttft_ms", ttft}};
    std::printf("%s\n", result.dump().c_str());
    return;
  }
  const auto print = [](const char* when, const std::vector<double>& ms) {
    std::printf("  %-32s median %5.1f   99 %% %5.1f   worst %5.1f ms\n", when, quantile(ms, 0.5), quantile(ms, 0.99),
                quantile(ms, 1));
  };
  std::printf("%s on %s: %u characters stream, then a prompt of %u tokens comes\n", info.name, info.backend,
              options.counts[0], options.intruder);
  std::printf("gap between a character's tokens\n");
  print("before, their texts short:", before);
  print("while the prompt is computed:", during);
  print("after, their texts long:", after);
  std::printf("worst gap: %.1f times the median before, %.1f times the median after; 99 %%: %.1f and %.1f times\n",
              times(worst, short_texts), times(worst, long_texts), times(quantile(during, 0.99), short_texts),
              times(quantile(during, 0.99), long_texts));
  std::printf("the prompt's first token comes after %.0f ms\n", ttft);
}

}  // namespace

int bench_intrusion(const NpcBenchOptions& options) {
  constexpr size_t kGapsAround = 40;
  NpcBenchOptions sized = options;
  sized.prompt = std::max(options.prompt, options.intruder);
  // The streams must outlast the intruder's prefill.
  const auto reply = static_cast<uint32_t>(3 * kGapsAround + options.intruder);
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
  const auto enough = [&](Gaps gaps) {
    return [&streams, gaps] {
      return std::all_of(streams.begin(), streams.end(),
                         [gaps](const Stream& s) { return (s.*gaps).size() >= kGapsAround; });
    };
  };
  if (!listen(session, streams, intruder, &Stream::before, enough(&Stream::before))) return 1;
  if (!submit_tokens(session, random_tokens(random, info.vocabulary, options.intruder), 1, intruder)) return 1;
  if (!listen(session, streams, intruder, &Stream::during, [&] { return intruder.first >= 0; })) return 1;
  if (!listen(session, streams, intruder, &Stream::after, enough(&Stream::after))) return 1;
  for (const Stream& stream : streams) banter_cancel(session.engine(), stream.request);

  std::vector<double> before, during, after;
  for (const Stream& stream : streams) {
    before.insert(before.end(), stream.before.begin() + kGapsAround / 2, stream.before.end());
    during.insert(during.end(), stream.during.begin(), stream.during.end());
    // The first one began in the intruder's last step.
    after.insert(after.end(), stream.after.begin() + 1, stream.after.end());
  }
  report(options, info, before, during, after, intruder.first - intruder.submitted);
  return 0;
}

}  // namespace banter::tools
