// banter bench: prefill and decode speed of a model, beside what this machine can do at most.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "backend_cpu/roofline.h"
#include "bench_npcs.h"
#include "commands.h"
#include "model_session.h"

namespace {

using banter::Result;
using banter::tools::ModelSession;
using Json = nlohmann::ordered_json;

struct Phase {
  int tokens = 0;
  std::vector<double> seconds;  // one a repetition
  double rate() const {         // of the median repetition
    std::vector<double> sorted = seconds;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<long>(sorted.size() / 2), sorted.end());
    return tokens / sorted[sorted.size() / 2];
  }
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/** Computes `tokens` behind `cache` in chunks of `chunk`; logits only for the last. */
Result<void> compute(ModelSession& session, banter::kv::SequenceCache& cache,
                     std::span<const banter::model::TokenId> tokens, int chunk) {
  banter::model::Batch batch;
  batch.chunks.resize(1);
  for (size_t done = 0; done < tokens.size();) {
    const size_t count = std::min(tokens.size() - done, static_cast<size_t>(chunk));
    const bool last = done + count == tokens.size();
    batch.chunks[0] = {&cache, tokens.subspan(done, count),
                       last ? banter::model::LogitRows::kLast : banter::model::LogitRows::kNone};
    if (Result<void> reserved = cache.reserve(static_cast<int32_t>(count)); !reserved) return reserved;
    const Result<std::span<float>> logits = session.model->forward(*session.pool, batch);
    if (!logits) return logits.error();
    done += count;
  }
  return {};
}

Result<void> measure(ModelSession& session, int repetitions, Phase& prefill, Phase& decode) {
  const int vocabulary = session.model->hyperparameters().vocabulary;
  std::mt19937 random(1);  // the values do not change the speed
  std::vector<banter::model::TokenId> tokens(static_cast<size_t>(std::max(prefill.tokens, 1)));
  for (auto& token : tokens) token = static_cast<int>(random() % static_cast<uint32_t>(vocabulary));
  const int chunk = session.model->max_rows();
  for (int round = -1; round < repetitions; ++round) {  // round -1 warms up
    if (prefill.tokens > 0) {
      banter::kv::SequenceCache cache(*session.pool, session.model->context_length());
      const double start = now();
      if (Result<void> done = compute(session, cache, tokens, chunk); !done) return done;
      if (round >= 0) prefill.seconds.push_back(now() - start);
    }
    if (decode.tokens > 0) {
      banter::kv::SequenceCache cache(*session.pool, session.model->context_length());
      if (Result<void> done = compute(session, cache, std::span(tokens).first(1), chunk); !done) return done;
      const double start = now();
      for (int i = 0; i < (round < 0 ? 2 : decode.tokens); ++i)
        if (Result<void> done =
                compute(session, cache, std::span(tokens).subspan(static_cast<size_t>(i) % tokens.size(), 1), 1);
            !done)
          return done;
      if (round >= 0) decode.seconds.push_back(now() - start);
    }
  }
  return {};
}

/** What `count` tokens would take without a KV cache, every step computing the whole text anew. Measured at a few lengths
 *  in the middle of equal parts, since the cost grows smoothly; at every length where there are few. */
Result<double> seconds_without_cache(ModelSession& session, int count) {
  constexpr int kMostLengths = 8;
  std::mt19937 random(1);
  std::vector<banter::model::TokenId> tokens(static_cast<size_t>(count));
  const auto vocabulary = static_cast<uint32_t>(session.model->hyperparameters().vocabulary);
  for (auto& token : tokens) token = static_cast<int>(random() % vocabulary);
  const int lengths = std::min(count, kMostLengths);
  double seconds = 0;
  for (int i = 0; i < lengths; ++i) {
    const size_t length =
        static_cast<size_t>(count) * static_cast<size_t>(2 * i + 1) / static_cast<size_t>(2 * lengths);
    banter::kv::SequenceCache cache(*session.pool, session.model->context_length());
    const double start = now();
    const auto text = std::span<const banter::model::TokenId>(tokens).first(length + 1);
    if (Result<void> done = compute(session, cache, text, session.model->max_rows()); !done) return done.error();
    seconds += now() - start;
  }
  return seconds / lengths * count;
}

void add_npc_options(CLI::App& app, banter::tools::NpcBenchOptions& o) {
  app.add_option("--npcs", o.counts, "so many characters at once, through the engine: 1,2,4,8,16,32")
      ->delimiter(',')
      ->check(CLI::Range(1u, 1024u));
  app.add_option("--shared-prefix", o.shared_prefix, "with --npcs: the first tokens of all prompts are the same")
      ->check(CLI::Range(0u, 1u << 20))
      ->capture_default_str();
  app.add_option("--intrude", o.intruder,
                 "a prompt of so many tokens comes while the first of --npcs [4] characters stream: what they notice")
      ->check(CLI::Range(0u, 1u << 20));
  app.add_option("--frame-budget", o.frame_budget_ms,
                 "milliseconds of each frame of a 60 Hz game, with the first of --npcs [4] characters")
      ->check(CLI::Range(0.0, 1000.0));
  app.add_option("--seconds", o.seconds, "with --frame-budget: how long to play")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  banter::tools::add_tuning_options(app, o.engine);
  banter::tools::add_trace_option(app, o.engine);
}

/** Characters that talk, instead of the bare model. */
int bench_through_engine(const banter::tools::ModelOptions& model, banter::tools::NpcBenchOptions& o) {
  if (o.prompt == 0 || o.generate < 2)
    return banter::tools::report_failure("bench", "characters need -p 1 and -n 2 at least.");
  if (o.counts.empty()) o.counts = {4};
  o.engine.model = model.model;
  o.engine.device = model.device;
  o.engine.threads = model.threads;
  o.engine.kv = model.kv;
  if (o.intruder > 0) return banter::tools::bench_intrusion(o);
  return o.frame_budget_ms > 0 ? banter::tools::bench_frames(o) : banter::tools::bench_npcs(o);
}

}  // namespace

int command_bench(int argc, char** argv) {
  CLI::App app{
      "Measures prefill (-p tokens at once) and decode (-n tokens one by one), and how near they come to this "
      "machine's limits.",
      "banter bench"};
  banter::tools::ModelOptions options;
  int prompt = 512, generate = 128, repetitions = 3;
  bool json = false, recompute = false;
  banter::tools::add_model_options(app, options);
  app.add_option("-p", prompt, "prompt tokens; 0: no prefill run")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("-n", generate, "tokens to generate; 0: no decode run")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("-r", repetitions, "repetitions; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--recompute", recompute, "also: what decoding would take without a KV cache (a few lengths measured)");
  app.add_flag("--json", json, "one JSON object as the last line of stdout");
  banter::tools::NpcBenchOptions npcs;
  add_npc_options(app, npcs);
  CLI11_PARSE(app, argc, argv);
  if (!npcs.counts.empty() || npcs.frame_budget_ms > 0 || npcs.intruder > 0) {
    npcs.prompt = static_cast<uint32_t>(prompt);
    npcs.generate = static_cast<uint32_t>(generate);
    npcs.repetitions = repetitions;
    npcs.json = json;
    return bench_through_engine(options, npcs);
  }

  std::optional<ModelSession> session = banter::tools::open_model(options, std::max(prompt, generate + 1) + 1);
  if (!session) return 1;
  Phase prefill{prompt, {}}, decode{generate, {}};
  if (Result<void> done = measure(*session, repetitions, prefill, decode); !done)
    return banter::tools::report_failure("bench", done.error().message);
  // The processor's limits say nothing of a graphics card; banter_bench_cuda measures those of the card.
  const bool on_cpu = session->backend->is_host_memory();
  const banter::cpu::Roofline roofline =
      on_cpu ? banter::cpu::measure_roofline(*session->threads, banter::cpu::best_isa()) : banter::cpu::Roofline{};
  const banter::model::TokenWork work = session->model->token_work();

  Json result = {{"model", session->model->display_name()},
                 {"backend", session->backend->name()},
                 {"threads", session->threads->threads()},
                 {"machine",
                  {{"int8_operations_per_second", roofline.int8_ops},
                   {"fp32_operations_per_second", roofline.fp32_ops},
                   {"read_bytes_per_second", roofline.read_bytes}}}};
  const auto report = [&](const char* name, const Phase& phase, double operations, double bytes) {
    if (phase.seconds.empty()) return;
    const double seconds = phase.tokens / phase.rate();
    const double arithmetic = roofline.int8_ops > 0 ? operations / seconds / roofline.int8_ops : 0;
    const double bandwidth = roofline.read_bytes > 0 ? bytes / seconds / roofline.read_bytes : 0;
    result[name] = {{"tokens", phase.tokens},
                    {"tokens_per_second", phase.rate()},
                    {"operations_per_second", operations / seconds},
                    {"bytes_per_second", bytes / seconds}};
    if (on_cpu) result[name].update({{"fraction_of_arithmetic", arithmetic}, {"fraction_of_bandwidth", bandwidth}});
    if (json) return;
    if (on_cpu) {
      std::printf(
          "%-8s %6d tokens %9.1f tokens/s   %4.0f %% of the arithmetic rate, %4.0f %% of the memory bandwidth\n", name,
          phase.tokens, phase.rate(), arithmetic * 100, bandwidth * 100);
    } else {
      std::printf("%-8s %6d tokens %9.1f tokens/s   %9.1f Gop/s, %7.1f GB/s\n", name, phase.tokens, phase.rate(),
                  operations / seconds / 1e9, bytes / seconds / 1e9);
    }
  };
  if (!json && !on_cpu) {
    std::printf("%s on %s\n", session->model->display_name().c_str(), session->backend->name().c_str());
  }
  if (!json && on_cpu)
    std::printf("%s on %s, %d threads; this machine: %.0f Gop/s int8, %.0f Gop/s fp32, %.1f GB/s\n",
                session->model->display_name().c_str(), session->backend->name().c_str(), session->threads->threads(),
                roofline.int8_ops / 1e9, roofline.fp32_ops / 1e9, roofline.read_bytes / 1e9);
  // A token multiplies with every element of the layers once; only the last one of a prompt, and every generated one, with the head.
  const double layers = static_cast<double>(work.layer_elements), head = static_cast<double>(work.head_elements);
  const int chunks = (prompt + session->model->max_rows() - 1) / session->model->max_rows();
  report("prefill", prefill, 2 * (layers * prompt + head),
         static_cast<double>(work.layer_bytes) * chunks + static_cast<double>(work.head_bytes));
  report("decode", decode, 2 * (layers + head) * generate,
         static_cast<double>(work.layer_bytes + work.head_bytes) * generate);
  if (recompute && generate > 0) {
    const Result<double> seconds = seconds_without_cache(*session, generate);
    if (!seconds) return banter::tools::report_failure("bench", seconds.error().message);
    const double gain = *seconds * decode.rate() / generate;
    result["recompute"] = {{"tokens", generate}, {"seconds", *seconds}, {"times_slower", gain}};
    if (!json) std::printf("no cache %5d tokens in %.1f s: %.1f times slower\n", generate, *seconds, gain);
  }
  if (json) std::printf("%s\n", result.dump().c_str());
  return 0;
}
