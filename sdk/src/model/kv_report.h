// What conversations of a model will hold, told from its file alone.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "kv/page_pool.h"
#include "ops/kv_format.h"

namespace banter::model {

/** Formats of KV pages, in the order in which they are shown. */
inline constexpr std::array<ops::KvType, ops::kKvTypes> kKvFormats = {
    ops::KvType::kF16, ops::KvType::kBF16, ops::KvType::kI8, ops::KvType::kI4, ops::KvType::kF32};

/** Layers that cache alike. */
struct KvLayers {
  uint64_t layers = 0;
  uint64_t window = 0;   // positions that are read; 0 = all
  uint64_t held = 0;     // positions that are kept where `window` is set: some more, so that replies can be taken back
  uint64_t bytes = 0;    // of K and V of one token in all these layers
  bool is_copy = false;  // the F16 copy of the newest tokens that goes with a quantised group
};

/** The shape of the KV cache. */
struct KvReport {
  /** By ops::KvType, as model::kv_groups() has them: with int8 and int4 the newest tokens' F16 copies are groups too. Empty where the model's heads cannot be kept so. */
  std::array<std::vector<KvLayers>, ops::kKvTypes> groups;
  uint64_t trained_context = 0;  // tokens
  uint64_t step_buffer_bytes = 0;

  std::array<std::vector<kv::GroupSpec>, ops::kKvTypes> specs;  // of `groups`

  const std::vector<KvLayers>& of(ops::KvType format) const { return groups[static_cast<size_t>(format)]; }
  bool supports(ops::KvType format) const { return !of(format).empty(); }
  bool has_windows() const;
  /** Bytes that one more token takes in `format`, before (or, with `beyond_windows`, after) all windows are full; copies
   *  not counted. */
  uint64_t bytes_per_token(ops::KvType format, bool beyond_windows = false) const;
  /** Bytes of a sequence of `tokens` tokens, whole pages of 16, copies included. */
  uint64_t sequence_bytes(ops::KvType format, uint64_t tokens) const;
  /** Bytes of the pages that a pool needs for one conversation of `tokens` tokens, computed in steps of at most `chunk`: with
   *  the room that a step's newest tokens take beside a full window, in whole pages of the pool's own sizes. */
  uint64_t conversation_bytes(ops::KvType format, int32_t tokens, int32_t chunk) const;
  /** What a character adds whose first `prefix` of `tokens` tokens are shared with all others. */
  uint64_t own_bytes(ops::KvType format, uint64_t tokens, uint64_t prefix) const;
};

/** Errors: UNSUPPORTED, CORRUPT: a model that could not be loaded either. */
Result<KvReport> read_kv_report(const formats::Gguf& file);

}  // namespace banter::model
