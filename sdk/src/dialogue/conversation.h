// What a character remembers: its persona and the turns, and how they become a prompt that fits the context.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialogue/chat_format.h"
#include "dialogue/turn.h"
#include "text/tokenizer.h"

namespace banter::dialogue {

/** What happens when a conversation outgrows its context. */
enum class ContextPolicy : uint8_t {
  kTrim,       // the oldest turns go
  kSummarize,  // the oldest turns go, and a summary of them stays
  kSlide,      // as kTrim, and a reply that reaches the end of the context goes on without what came after the persona
  kStop        // nothing goes: CONTEXT_FULL
};

/** How long prompts may get. */
struct ContextLimits {
  int32_t context_tokens = 0;  // prompt and reply together
  int32_t reply_reserve = 0;   // tokens of these kept free for the reply, below context_tokens
};

/** A prompt for the next reply, and what the conversation becomes when the reply has ended. */
struct Prompt {
  std::vector<text::TokenId> tokens;
  uint32_t dropped_turns = 0;   // oldest turns that did not fit
  uint32_t dropped_tokens = 0;  // how much shorter the prompt is without them
  int32_t pinned_tokens = 0;    // kSlide: persona and examples, at its start
};

/** All of a conversation that outlives the process. */
struct ConversationState {
  std::string persona;
  std::vector<Turn> examples;  // exchanges before the first turn; never dropped
  std::deque<Turn> turns;
  uint32_t forgotten_turns = 0;  // dropped by add() and not reported yet
  std::string summary;           // of turns before these
};

/** One conversation. Engine thread only.
 *
 *  Persona, examples and the newest turn always stay. When the prompt would leave less than the reply reserve, the oldest
 *  turns go (but for kStop), whole exchanges (up to the next user turn) at a time, until an eighth of the context is free
 *  beyond the reserve: each time turns go the whole prompt must be computed anew, and without that slack it would happen
 *  at every turn. With kSummarize, what goes is kept until a summary of it comes; the summary stands behind the persona in
 *  the system message, unless persona and newest turn leave no room for it. */
class Conversation {
 public:
  explicit Conversation(std::string persona, std::vector<Turn> examples = {},
                        ContextPolicy policy = ContextPolicy::kTrim)
      : persona_(std::move(persona)), examples_(std::move(examples)), policy_(policy) {}

  /** The prompt for a reply to `said` (empty: no new turn; the character speaks first or goes on). Changes nothing.
   *  Errors: PROMPT_TOO_LONG (persona and newest turn alone do not fit), CONTEXT_FULL (kStop), TEMPLATE, NO_TEMPLATE. */
  Result<Prompt> prompt_for(const ChatFormat& format, const ContextLimits& limits, std::string_view said,
                            Thinking thinking = Thinking::kAuto) const;

  /** The reply has ended: forgets the turns that `prompt` dropped, and adds what was said and the reply. */
  void commit(const Prompt& prompt, std::string_view said, std::string_view reply);

  /** Adds a turn. Keeps at most `limit_bytes` of text in turns, dropping the oldest: more could never fit a prompt. */
  void add(Role role, std::string text, size_t limit_bytes);
  void reset();

  /** Turns went that no summary tells of yet. */
  bool wants_summary() const { return !unsummarized_.empty(); }
  /** What to ask the model for, as a message to it of at most about `limit_bytes`: a summary of the old one and of what went since,
   *  in at most `words`. What does not fit into the message is left out, oldest first. */
  std::string summary_request(size_t limit_bytes, uint32_t words) const;
  /** The answer. An empty one keeps the summary as it was; either way nothing waits any more. */
  void set_summary(std::string_view summary);

  ConversationState state() const { return {persona_, examples_, turns_, forgotten_turns_, summary_}; }
  /** A conversation in this state; `limit_bytes` as in add(). */
  static Conversation restored(ConversationState state, ContextPolicy policy, size_t limit_bytes);
  ContextPolicy policy() const { return policy_; }
  const std::string& summary() const { return summary_; }

  const std::deque<Turn>& turns() const { return turns_; }
  const std::string& persona() const { return persona_; }
  const std::vector<Turn>& examples() const { return examples_; }

 private:
  Result<std::vector<text::TokenId>> render(const ChatFormat& format, size_t from, std::string_view summary,
                                            std::string_view said, Thinking thinking) const;
  /** The first turn at or after `from` where an exchange starts, or turns_.size(). */
  size_t exchange_at(size_t from) const;
  Result<Prompt> fitted(const ChatFormat& format, const ContextLimits& limits, std::string_view summary,
                        std::string_view said, Thinking thinking) const;
  void forget_oldest();

  std::string persona_;
  std::vector<Turn> examples_;
  std::deque<Turn> turns_;
  size_t turn_bytes_ = 0;
  uint32_t forgotten_turns_ = 0;  // dropped by add() and not reported yet
  ContextPolicy policy_;
  std::string summary_;
  std::deque<Turn> unsummarized_;  // kSummarize: gone from turns_, oldest first
};

}  // namespace banter::dialogue
