#include "dialogue/conversation.h"

#include <algorithm>

namespace banter::dialogue {

using text::TokenId;

Result<std::vector<TokenId>> Conversation::render(const ChatFormat& format, size_t from, std::string_view said,
                                                  Thinking thinking) const {
  std::vector<Turn> turns = examples_;
  turns.insert(turns.end(), turns_.begin() + static_cast<std::ptrdiff_t>(from), turns_.end());
  if (!said.empty()) turns.push_back({Role::kUser, std::string(said)});
  return format.encode(persona_, turns, thinking);
}

size_t Conversation::exchange_at(size_t from) const {
  while (from < turns_.size() && turns_[from].role != Role::kUser) ++from;
  return from;
}

Result<Prompt> Conversation::prompt_for(const ChatFormat& format, const ContextLimits& limits, std::string_view said,
                                        Thinking thinking) const {
  const auto room = static_cast<size_t>(std::max(0, limits.context_tokens - limits.reply_reserve));
  Prompt prompt;
  auto whole = render(format, 0, said, thinking);
  if (!whole) return whole.error();
  prompt.dropped_turns = forgotten_turns_;
  if (whole->size() <= room) {
    prompt.tokens = std::move(*whole);
    return prompt;
  }

  // The newest turn must stay: what was said, or the last turn when nothing was.
  const size_t last_start = said.empty() && !turns_.empty() ? turns_.size() - 1 : turns_.size();
  const size_t slack = static_cast<size_t>(limits.context_tokens) / 8;
  const size_t wanted = room > slack ? room - slack : room;
  // The fewest turns dropped that give a prompt of at most `wanted`. Longer conversations give longer prompts, so halve.
  size_t low = 1, high = last_start;
  std::optional<std::vector<TokenId>> best;
  size_t best_from = 0;
  while (low <= high) {
    const size_t middle = low + (high - low) / 2;
    const size_t from = std::min(exchange_at(middle), last_start);
    auto tokens = render(format, from, said, thinking);
    if (!tokens) return tokens.error();
    if (tokens->size() <= wanted) {
      best = std::move(*tokens);
      best_from = from;
      if (middle == 0) break;
      high = middle - 1;
    } else {
      low = from + 1;
    }
  }
  if (!best && last_start > 0) {
    // The slack is a wish, the reserve a promise.
    auto tokens = render(format, last_start, said, thinking);
    if (!tokens) return tokens.error();
    if (tokens->size() <= room) {
      best = std::move(*tokens);
      best_from = last_start;
    }
  }
  if (!best) {
    auto smallest = render(format, last_start, said, thinking);
    const size_t needed = smallest ? smallest->size() : whole->size();
    return Error{BANTER_ERROR_PROMPT_TOO_LONG, "The persona and the newest turn need " + std::to_string(needed) +
                                                   " tokens, but the context of " +
                                                   std::to_string(limits.context_tokens) + " less a reply reserve of " +
                                                   std::to_string(limits.reply_reserve) + " holds " +
                                                   std::to_string(room) + "; shorten them, or raise context_tokens."};
  }
  prompt.dropped_turns += static_cast<uint32_t>(best_from);
  prompt.dropped_tokens = static_cast<uint32_t>(whole->size() - std::min(whole->size(), best->size()));
  prompt.tokens = std::move(*best);
  return prompt;
}

void Conversation::commit(const Prompt& prompt, std::string_view said, std::string_view reply) {
  const uint32_t drop = prompt.dropped_turns - std::min(prompt.dropped_turns, forgotten_turns_);
  for (uint32_t i = 0; i < drop && !turns_.empty(); ++i) {
    turn_bytes_ -= turns_.front().text.size();
    turns_.pop_front();
  }
  forgotten_turns_ = 0;
  if (!said.empty()) add(Role::kUser, std::string(said), SIZE_MAX);
  add(Role::kAssistant, std::string(reply), SIZE_MAX);
}

void Conversation::add(Role role, std::string text, size_t limit_bytes) {
  const size_t bytes = text.size();
  turns_.push_back({role, std::move(text)});
  turn_bytes_ += bytes;
  while (turn_bytes_ > limit_bytes && turns_.size() > 1) {
    turn_bytes_ -= turns_.front().text.size();
    turns_.pop_front();
    ++forgotten_turns_;
  }
}

Conversation Conversation::restored(ConversationState state, size_t limit_bytes) {
  Conversation conversation(std::move(state.persona), std::move(state.examples));
  conversation.forgotten_turns_ = state.forgotten_turns;
  for (Turn& turn : state.turns) conversation.add(turn.role, std::move(turn.text), limit_bytes);
  return conversation;
}

void Conversation::reset() {
  turns_.clear();
  turn_bytes_ = 0;
  forgotten_turns_ = 0;
}

}  // namespace banter::dialogue
