// Many characters on one engine, measured through the C ABI: `banter bench --npcs` and `banter bench --frame-budget`.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine_session.h"

namespace banter::tools {

struct NpcBenchOptions {
  EngineOptions engine;
  std::vector<uint32_t> counts;  // of characters, one measurement each
  uint32_t prompt = 512;         // tokens of each prompt, at least 1
  uint32_t generate = 128;       // tokens of each reply, at least 2
  uint32_t intruder = 0;         // tokens of a prompt that comes while the others stream; 0: none
  uint32_t shared_prefix = 0;    // of the prompt, common to all
  int repetitions = 3;
  double frame_budget_ms = 0;
  double seconds = 10;  // of the frame budget's loop
  bool json = false;
};

/** Engine, model and a KV pool in which `most` characters with prompt and reply find room, and what the model is. False:
 *  the reason was printed. */
bool open_for_npcs(EngineSession& session, const NpcBenchOptions& options, uint32_t most, banter_model_info& info);
/** The engine's figures now. */
banter_engine_statistics figures(EngineSession& session);

/** A request's way, on one clock. Times in milliseconds. */
struct Heard {
  banter_request_id request = 0;
  double submitted = 0, first = -1, ended = -1;
  bool failed = false;
  banter_request_statistics statistics = {};
};

double now_ms();
/** The value below which the fraction `q` of `values` lies; 0 where there are none. */
double quantile(std::vector<double> values, double q);
/** Ids for speed measurements: they come from the model's whole vocabulary, a prompt is never like another. */
std::vector<int32_t> random_tokens(std::mt19937_64& random, uint32_t vocabulary, size_t count);
/** Continues `tokens` greedily for exactly `generate` tokens. False: the reason was printed. */
bool submit_tokens(EngineSession& session, const std::vector<int32_t>& tokens, uint32_t generate, Heard& heard);
/** Takes waiting events, sleeping up to `wait_ms` for them. False: the reason was printed. */
bool hear(EngineSession& session, std::vector<Heard>& all, uint32_t wait_ms);

/** All print a table or, with options.json, one JSON object, and return an exit code. */
int bench_npcs(const NpcBenchOptions& options);
int bench_frames(const NpcBenchOptions& options);
int bench_intrusion(const NpcBenchOptions& options);

}  // namespace banter::tools
