// What a call of the game carries to the engine: checked arguments by reference, copied into the queue by submit().
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "banter/types.h"
#include "dialogue/thought_splitter.h"

namespace banter::engine {

struct Blob;
struct ModelObject;
struct NpcObject;

enum class RequestKind : uint8_t { kLoad, kSay, kComplete, kCompleteTokens, kSummary, kSave, kRestore };

/** Of a request where neither it nor its character says otherwise. */
inline constexpr int32_t kDefaultPriority = 4;

/** The parts of a sampling config that have a fixed size. */
struct SamplingSettings {
  uint64_t seed = 0;
  float temperature = 0, top_p = 0, min_p = 0, typical_p = 0;
  float repetition_penalty = 0, presence_penalty = 0, frequency_penalty = 0;
  float dry_multiplier = 0, dry_base = 0, xtc_probability = 0, xtc_threshold = 0, mirostat_tau = 0, mirostat_eta = 0;
  int32_t top_k = 0, penalty_last_tokens = 0, dry_allowed_length = 0, dry_last_tokens = 0, mirostat = 0;
};

struct Submission {
  RequestKind kind = RequestKind::kSay;
  ModelObject* model = nullptr;
  NpcObject* npc = nullptr;
  void* user_data = nullptr;
  uint32_t flags = 0;
  uint32_t max_tokens = 0;
  dialogue::Thinking thinking = dialogue::Thinking::kAuto;
  uint32_t thinking_budget_tokens = 0;
  int32_t priority = BANTER_PRIORITY_DEFAULT;
  uint32_t deadline_ms = 0;  // 0: none
  std::string_view text;
  std::span<const int32_t> tokens;
  bool has_sampling = false;  // else the character's, else the library's defaults
  SamplingSettings sampling;
  std::span<const int32_t> bias_tokens;
  std::span<const float> bias_values;  // as many
  std::span<const char* const> dry_breakers;
  std::span<const char*const> stop_strings, banned_strings;
  std::span<const int32_t> stop_tokens;
  Blob* blob = nullptr;  // a snapshot to load; the request's once it is accepted
};

/** A refused call: a code and a sentence. Static text, so that refusing allocates nothing. */
struct Refusal {
  banter_result code = BANTER_OK;
  const char* message = "";
  explicit operator bool() const { return code != BANTER_OK; }
};

}  // namespace banter::engine
