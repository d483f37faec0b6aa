// One request while the engine works on it: from its command to its terminal event.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banter/types.h"
#include "dialogue/conversation.h"
#include "dialogue/reply.h"
#include "engine/acceptance.h"
#include "engine/channels.h"
#include "engine/draft_cache.h"
#include "engine/latency.h"
#include "engine/metrics.h"
#include "engine/objects.h"
#include "kv/page_pool.h"
#include "sampling/sampler.h"

namespace banter::engine {

/** Engine thread only. */
struct Generation {
  // What was asked.
  uint32_t slot = 0;
  banter_request_id id = 0;
  RequestKind kind = RequestKind::kSay;
  ModelObject* model = nullptr;
  NpcObject* npc = nullptr;
  NpcObject* summary_of = nullptr;  // kSummary, which nobody outside knows of: no slot, no events
  void* user_data = nullptr;
  uint32_t flags = 0;
  uint32_t max_tokens = 0;
  dialogue::Thinking thinking = dialogue::Thinking::kAuto;
  int32_t priority = 0;
  uint64_t arrival = 0;               // order of submission
  uint64_t deadline_ns = UINT64_MAX;  // by which its first token must be there
  uint64_t waited_ns = 0;             // in which it could have gone on and did not
  std::string text;
  std::vector<text::TokenId> input_tokens;
  sampling::SamplingParams params;
  std::vector<std::string> dry_breakers;  // what params.dry_breakers becomes for the model's tokenizer
  dialogue::ReplyOptions reply_options;

  // While it runs. `tokens` is the whole sequence; what of it is not in the cache is still to be computed.
  enum class State : uint8_t { kQueued, kRunning, kFinished };
  State state = State::kQueued;
  dialogue::Prompt prompt;
  std::vector<text::TokenId> tokens;
  size_t prompt_tokens = 0;
  int32_t limit = 0;  // most tokens of the sequence
  std::optional<kv::SequenceCache> own_cache;
  kv::SequenceCache* cache = nullptr;
  std::unique_ptr<sampling::Sampler> sampler;

  // Speculation: guesses of what comes after `tokens`, and the tokens of the chunk that checks them.
  std::vector<text::TokenId> guesses, checked;
  Acceptance acceptance;
  std::optional<DraftCache> draft_cache;
  uint32_t drafted_tokens = 0, accepted_tokens = 0;

  std::optional<dialogue::Reply> reply;
  uint64_t served_step = 0;
  bool admitted = false;  // may take pages
  uint32_t preemptions = 0;

  // On the way to the host.
  dialogue::Outgoing out_text;
  std::unique_ptr<Blob> blob;    // of a request to load or save a snapshot
  size_t out_tokens_from = 0;    // reply tokens before this index were sent
  bool trimmed_waiting = false;  // a CONTEXT_TRIMMED event is due
  uint32_t trimmed_turns = 0, trimmed_tokens = 0;
  bool prompt_waiting = false;  // a PROMPT event is due
  bool delayed = false;         // its output has been waiting for a poll

  // How it ended.
  banter_event_kind terminal = 0;
  banter_result code = BANTER_OK;
  banter_finish_reason reason = BANTER_FINISH_NONE;
  std::string message;

  uint64_t submitted_ns = 0, started_ns = 0, first_token_ns = 0, last_token_ns = 0;
  uint32_t cached_tokens = 0;
  RequestProgress progress;
  LatencyHistogram latency;

  std::vector<text::TokenId> reply_tokens;  // everything generated, the token that ended it included

  /** Waits for its character, or for its model. */
  bool is_queued() const { return state == State::kQueued && terminal == 0; }
  int32_t pending() const { return static_cast<int32_t>(tokens.size()) - cache->length(); }
};

/** Reads a posted request out of its slot and chain (which it returns to the pool). */
std::unique_ptr<Generation> receive(Channels& channels, uint32_t slot_index);

/** Marks how the generation ended; deliver() then tells the host. */
void end_with(Generation& generation, banter_event_kind kind, banter_result code, banter_finish_reason reason,
              std::string message);

inline constexpr const char* kDeadlinePassed = "The deadline passed before the reply could begin.";
/** No token came before its deadline. */
bool is_overdue(const Generation& generation, uint64_t now);
/** Ends it for that. */
void end_overdue(Generation& generation);
/** The character's conversation keeps the reply, where it should. Errors: throws for want of memory. */
void keep_reply(Generation& generation);

/** For metrics and trace: `rows` tokens of the generation were computed in a step that began at `from_ns` and had its logits
 *  at `to_ns`; its cache has them. */
void note_rows(Channels& channels, Generation& generation, uint32_t rows, uint64_t from_ns, uint64_t to_ns);
/** Tells metrics and trace how often its pages were taken for another, where they do not know yet. */
void note_preemptions(Channels& channels, Generation& generation);
/** It ended, or the trace does: adds its life to the trace, where one is recorded. */
void trace_life(Channels& channels, Generation& generation);

/** Sends what is waiting: TRIMMED, PROMPT, TEXT, and, once it ended, the terminal event. False while events are full;
 *  nothing is lost, call again after a poll. True: everything is sent; after the terminal event the slot is the host's. */
bool deliver(Channels& channels, Generation& generation);

}  // namespace banter::engine
