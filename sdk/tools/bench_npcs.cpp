// banter bench --npcs: how fast many characters talk at once, and how smoothly.
//
// For each number of characters: all prompts arrive at once and are answered with one token, which tells the time to the
// first token (TTFT). Then the same characters, whose prompts are found in the cache now, reply at length together, which
// tells the tokens per second of all together and the time between tokens (ITL). With a shared prefix the characters arrive
// one after another, each at the first token of the one before, as a player meets them.
#include "bench_npcs.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "formats/gguf.h"
#include "inspect_report.h"

namespace banter::tools {
namespace {

using Json = nlohmann::ordered_json;

/** One number of characters; of several repetitions the medians. Times in milliseconds. */
struct Measured {
  std::vector<double> aggregate, prefill;                // tokens per second
  std::vector<double> prefilled;                         // tokens of all prompts that were computed
  std::vector<double> ttft_p50, ttft_p99, first, later;  // later: the median of all but the first
  std::vector<double> later_p99, itl_p50, itl_p99;
  std::vector<double> cached;  // fraction of all prompts of the second part that was in the cache
  uint64_t kv_bytes_before = 0, kv_bytes_most = 0;
};

std::vector<std::vector<int32_t>> make_prompts(const NpcBenchOptions& options, uint32_t count, uint32_t vocabulary,
                                               std::mt19937_64& random) {
  const uint32_t common = std::min(options.shared_prefix, options.prompt);
  const std::vector<int32_t> prefix = random_tokens(random, vocabulary, common);
  std::vector<std::vector<int32_t>> prompts(count, prefix);
  for (std::vector<int32_t>& prompt : prompts) {
    const std::vector<int32_t> own = random_tokens(random, vocabulary, options.prompt - common);
    prompt.insert(prompt.end(), own.begin(), own.end());
  }
  return prompts;
}

bool all_ended(const std::vector<Heard>& all) {
  return std::all_of(all.begin(), all.end(), [](const Heard& heard) { return heard.ended >= 0; });
}

/** All prompts with one token each. `one_by_one`: each waits for the first token of the one before. */
bool arrive(EngineSession& session, const std::vector<std::vector<int32_t>>& prompts, bool one_by_one,
            std::vector<Heard>& all) {
  all.assign(prompts.size(), {});
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (!submit_tokens(session, prompts[i], 1, all[i])) return false;
    while (one_by_one && all[i].ended < 0)
      if (!hear(session, all, 1000)) return false;
  }
  while (!all_ended(all))
    if (!hear(session, all, 1000)) return false;
  return true;
}

bool reply(EngineSession& session, const std::vector<std::vector<int32_t>>& prompts, uint32_t generate,
           std::vector<Heard>& all, Measured& measured) {
  all.assign(prompts.size(), {});
  measured.kv_bytes_before = figures(session).kv_bytes_used;
  for (size_t i = 0; i < prompts.size(); ++i)
    if (!submit_tokens(session, prompts[i], generate, all[i])) return false;
  while (!all_ended(all)) {
    if (!hear(session, all, 1000)) return false;
    measured.kv_bytes_most = std::max(measured.kv_bytes_most, figures(session).kv_bytes_used);
  }
  return true;
}

void take_arrival(const std::vector<Heard>& all, Measured& measured) {
  std::vector<double> ttft, later;
  double computed = 0, begin = all[0].submitted, end = 0;
  for (const Heard& heard : all) {
    ttft.push_back(heard.statistics.ttft_ms);
    if (&heard != &all[0]) later.push_back(heard.statistics.ttft_ms);
    computed += heard.statistics.prompt_tokens - heard.statistics.cached_tokens;
    end = std::max(end, heard.ended);
  }
  measured.ttft_p50.push_back(quantile(ttft, 0.5));
  measured.ttft_p99.push_back(quantile(ttft, 0.99));
  measured.first.push_back(ttft[0]);
  if (!later.empty()) measured.later.push_back(quantile(later, 0.5));
  if (!later.empty()) measured.later_p99.push_back(quantile(later, 0.99));
  measured.prefilled.push_back(computed);
  measured.prefill.push_back(computed * 1000 / (end - begin));
}

void take_replies(const std::vector<Heard>& all, Measured& measured) {
  std::vector<double> p50;
  double tokens = -1, begin = 1e300, end = 0, worst = 0, cached = 0, prompts = 0;
  for (const Heard& heard : all) {
    const banter_request_statistics& s = heard.statistics;
    tokens += s.generated_tokens;
    begin = std::min(begin, heard.submitted + s.ttft_ms);
    end = std::max(end, heard.submitted + s.ttft_ms + s.decode_ms);
    p50.push_back(s.itl_p50_ms);
    worst = std::max(worst, s.itl_p99_ms);
    cached += s.cached_tokens;
    prompts += s.prompt_tokens;
  }
  measured.aggregate.push_back(tokens * 1000 / std::max(end - begin, 1e-6));
  measured.itl_p50.push_back(quantile(p50, 0.5));
  measured.itl_p99.push_back(worst);
  measured.cached.push_back(cached / prompts);
}

/** Every prompt is a new one: none is in the cache of the ones before. */
bool measure(EngineSession& session, const NpcBenchOptions& options, uint32_t count, uint32_t vocabulary,
             std::mt19937_64& random, Measured& measured) {
  for (int round = 0; round < options.repetitions; ++round) {
    const std::vector<std::vector<int32_t>> prompts = make_prompts(options, count, vocabulary, random);
    std::vector<Heard> all;
    if (!arrive(session, prompts, options.shared_prefix > 0, all)) return false;
    take_arrival(all, measured);
    if (!reply(session, prompts, options.generate, all, measured)) return false;
    take_replies(all, measured);
  }
  return true;
}

double median(const std::vector<double>& values) {
  return quantile(values, 0.5);
}

Json to_json(uint32_t count, const NpcBenchOptions& options, const Measured& m) {
  Json json = {{"count", count},
               {"aggregate_tokens_per_second", median(m.aggregate)},
               {"ttft_ms", {{"p50", median(m.ttft_p50)}, {"p99", median(m.ttft_p99)}}},
               {"itl_ms", {{"p50", median(m.itl_p50)}, {"p99", median(m.itl_p99)}}},
               {"prefilled_tokens", median(m.prefilled)},
               {"prefill_tokens_per_second", median(m.prefill)},
               {"cached_fraction", median(m.cached)},
               {"kv_bytes", m.kv_bytes_most - std::min(m.kv_bytes_most, m.kv_bytes_before)}};
  if (options.shared_prefix > 0) {
    json["ttft_first_ms"] = median(m.first);
    if (!m.later.empty()) json["ttft_later_ms"] = {{"p50", median(m.later)}, {"p99", median(m.later_p99)}};
  }
  return json;
}

void print_row(uint32_t count, const NpcBenchOptions& options, const Measured& m) {
  std::printf("%5u %12.1f %12.1f %10.1f %10.1f %9.2f %9.2f %9.1f", count, median(m.aggregate), median(m.prefill),
              median(m.ttft_p50), median(m.ttft_p99), median(m.itl_p50), median(m.itl_p99),
              static_cast<double>(m.kv_bytes_most - std::min(m.kv_bytes_most, m.kv_bytes_before)) / 1048576.0);
  if (options.shared_prefix > 0) {
    std::printf(" %10.1f", median(m.first));
    if (!m.later.empty()) std::printf(" %10.1f %5.1f x", median(m.later), median(m.first) / median(m.later));
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

std::vector<int32_t> random_tokens(std::mt19937_64& random, uint32_t vocabulary, size_t count) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocabulary);
  return tokens;
}

bool open_for_npcs(EngineSession& session, const NpcBenchOptions& options, uint32_t most, banter_model_info& info) {
  EngineOptions engine = options.engine;
  const uint32_t tokens = options.prompt + options.generate + 16;
  const Result<formats::Gguf> file = formats::Gguf::open(engine.model);
  if (!file) {
    std::fprintf(stderr, "banter bench: %s\n", file.error().message.c_str());
    return false;
  }
  // Room for everyone, and for the prompts of the measurement before until they are dropped; in float32 at most.
  const ModelReport report = analyse(*file);
  if (report.kv)
    engine.kv_budget_bytes = (most + 1) * report.kv->sequence_bytes(ops::KvType::kF32, tokens + 16) * 5 / 4;
  if (engine.context == 0) engine.context = tokens;
  engine.max_requests = std::max(256u, 2 * most);
  if (!session.open(engine)) return false;
  info = {};
  info.struct_size = sizeof info;
  return banter_model_get_info(session.model(), &info) == BANTER_OK;
}

banter_engine_statistics figures(EngineSession& session) {
  banter_engine_statistics statistics = {};
  statistics.struct_size = sizeof statistics;
  banter_engine_get_statistics(session.engine(), &statistics);
  return statistics;
}

bool submit_tokens(EngineSession& session, const std::vector<int32_t>& tokens, uint32_t generate, Heard& heard) {
  banter_sampling_config sampling;
  banter_sampling_config_init(&sampling, sizeof sampling);
  sampling.temperature = 0;
  banter_request_config config;
  banter_request_config_init(&config, sizeof config);
  config.sampling = &sampling;
  config.max_tokens = generate;
  config.flags = BANTER_REQUEST_IGNORE_END;
  heard = {};
  heard.submitted = now_ms();
  if (banter_model_complete_tokens(session.model(), tokens.data(), tokens.size(), &config, &heard.request) == BANTER_OK)
    return true;
  std::fprintf(stderr, "banter bench: %s\n", banter_last_error_message());
  return false;
}

bool hear(EngineSession& session, std::vector<Heard>& all, uint32_t wait_ms) {
  if (wait_ms > 0) banter_wait(session.engine(), wait_ms);
  banter_event events[64];
  uint32_t count = 0;
  if (banter_poll(session.engine(), events, sizeof events[0], 64, &count) != BANTER_OK) {
    std::fprintf(stderr, "banter bench: %s\n", banter_last_error_message());
    return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const banter_event& event = events[i];
    const auto heard = std::find_if(all.begin(), all.end(), [&](const Heard& h) { return h.request == event.request; });
    if (heard == all.end()) continue;
    if (event.kind == BANTER_EVENT_FAILED) {
      std::fprintf(stderr, "banter bench: %s\n", event.text);
      return false;
    }
    if (event.token_count > 0 && heard->first < 0) heard->first = now_ms();
    if (event.statistics != nullptr) {
      heard->statistics = *event.statistics;
      heard->ended = now_ms();
    }
  }
  return true;
}

int bench_npcs(const NpcBenchOptions& options) {
  EngineSession session;
  const uint32_t most = *std::max_element(options.counts.begin(), options.counts.end());
  banter_model_info info;
  if (!open_for_npcs(session, options, most, info)) return 1;
  Json result = {{"model", info.name},
                 {"backend", info.backend},
                 {"backend_reason", info.backend_reason},
                 {"prompt_tokens", options.prompt},
                 {"generated_tokens", options.generate},
                 {"shared_prefix", options.shared_prefix},
                 {"npcs", Json::array()}};
  if (!options.json) {
    std::printf("%s on %s; each prompt %u tokens, each reply %u; times in ms, medians of %d\n", info.name, info.backend,
                options.prompt, options.generate, options.repetitions);
    std::printf("%5s %12s %12s %10s %10s %9s %9s %9s%s\n", "npcs", "tokens/s", "prefill t/s", "TTFT p50", "TTFT p99",
                "ITL p50", "ITL p99", "KV MiB", options.shared_prefix > 0 ? " first TTFT later TTFT  ratio" : "");
  }
  Measured warm_up;
  NpcBenchOptions brief = options;
  brief.repetitions = 1;
  brief.generate = std::min(options.generate, 8u);
  std::mt19937_64 random(1);
  if (!measure(session, brief, 1, info.vocabulary, random, warm_up)) return 1;
  for (const uint32_t count : options.counts) {
    Measured measured;
    if (!measure(session, options, count, info.vocabulary, random, measured)) return 1;
    if (!options.json) print_row(count, options, measured);
    result["npcs"].push_back(to_json(count, options, measured));
  }
  if (options.json) std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace banter::tools
