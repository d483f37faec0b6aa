// The parts of banter_bench_cuda.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench_cuda/card.h"
#include "formats/tensor_type.h"
#include "kv/page_pool.h"
#include "ops/backend.h"

namespace banter::bench {

using Json = nlohmann::ordered_json;

struct Settings {
  bool smoke = false;    // tiny shapes: does it run at all? Times mean nothing
  double seconds = 0.1;  // that a line's measurement takes at least
  std::vector<std::string> types = {"Q4_0", "Q4_K", "Q8_0", "F16"};
  std::vector<std::string> shapes = {"8B", "1B", "0.5B"};  // the most telling first
  std::vector<int> npcs = {1, 2, 4, 8, 16, 32, 64};
  /** Nothing new begins from then on; what is left out is said. */
  std::chrono::steady_clock::time_point stop_at = std::chrono::steady_clock::time_point::max();

  bool time_is_up() const { return std::chrono::steady_clock::now() >= stop_at; }
};

/** The type of that name; null: there is none. */
const formats::TypeTraits* find_type(const std::string& name);

/** Sequences in a pool whose pages hold zeros, each with `length` tokens that nobody computed. */
struct Sequences {
  std::unique_ptr<kv::PagePool> pool;
  std::vector<kv::SequenceCache> caches;
};
/** Errors: those of PagePool::create and reserve(). */
Result<Sequences> make_sequences(ops::Backend& backend, std::vector<kv::GroupSpec> groups, int32_t count,
                                 int32_t length, int32_t room);

/** Each op alone, on the sizes of an 8B model: microseconds, bytes, fractions of the limits. */
Result<Json> bench_kernels(ops::Backend& backend, const CardLimits& limits, const Settings& settings);
/** Whole models of random weights: tokens a second of prompts and of replies. */
Result<Json> bench_models(ops::Backend& backend, const CardLimits& limits, const Settings& settings);
/** How long a game's frames take beside characters that talk. */
Result<Json> bench_frames(ops::Backend& backend, int32_t device, const Settings& settings);

}  // namespace banter::bench
