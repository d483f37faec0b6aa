// What one step computes: chunks of sequences, packed by the scheduler.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace banter::model {

using TokenId = int32_t;

enum class LogitRows : uint8_t { kNone, kLast, kAll };

/** The next tokens of one sequence: one for decode, several for prefill. Positions start at cache->length(). */
struct Chunk {
  kv::SequenceCache* cache = nullptr;  // reserve()d for these tokens
  std::span<const TokenId> tokens;
  LogitRows logits = LogitRows::kLast;
};

struct Batch {
  std::vector<Chunk> chunks;
  /** Called between layers and parts of the head, and may take its time; false gives the step up. For backends whose memory
   *  is the host's. */
  std::function<bool()> between_layers;
  int32_t rows() const {
    size_t n = 0;
    for (const Chunk& c : chunks) n += c.tokens.size();
    return static_cast<int32_t>(n);
  }
};

}  // namespace banter::model
