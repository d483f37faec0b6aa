#include "dialogue/conversation.h"

#include <algorithm>

#include "text/utf8.h"

namespace banter::dialogue {

using text::TokenId;

namespace {

constexpr std::string_view kSummaryTitle = "What happened before: ";
constexpr std::string_view kSummaryTask = "Below is the earlier part of a conversation. Sum it up in at most ";
constexpr std::string_view kSummaryWhat =
    " words for the one who answers in it: who was met, what was asked, told, promised and decided, and every name. "
    "Write nothing but the summary, in the language of the conversation.\n";
constexpr size_t kMostSummaryBytes = 2048, kLeastSummarized = 128;
constexpr size_t kMostUnsummarized = 256;  // turns
/** What a turn counts beside its text, so that empty ones are bounded too: a token of its template at least. */
constexpr size_t kTurnBytes = 64;

const char* speaker(Role role) {
  return role == Role::kUser ? "User: " : role == Role::kAssistant ? "Answer: " : "Note: ";
}

}  // namespace

Result<std::vector<TokenId>> Conversation::render(const ChatFormat& format, size_t from, std::string_view summary,
                                                  std::string_view said, Thinking thinking) const {
  std::vector<Turn> turns = examples_;
  turns.insert(turns.end(), turns_.begin() + static_cast<std::ptrdiff_t>(from), turns_.end());
  if (!said.empty()) turns.push_back({Role::kUser, std::string(said)});
  if (summary.empty()) return format.encode(persona_, turns, thinking);
  std::string system = persona_;
  if (!system.empty()) system += "\n\n";
  system += kSummaryTitle;
  system += summary;
  return format.encode(system, turns, thinking);
}

size_t Conversation::exchange_at(size_t from) const {
  while (from < turns_.size() && turns_[from].role != Role::kUser) ++from;
  return from;
}

Result<Prompt> Conversation::prompt_for(const ChatFormat& format, const ContextLimits& limits, std::string_view said,
                                        Thinking thinking) const {
  std::string_view summary = summary_;
  auto prompt = fitted(format, limits, summary, said, thinking);
  // As the oldest of what a character remembers, a summary goes before what is said has no room.
  if (!prompt && prompt.error().code == BANTER_ERROR_PROMPT_TOO_LONG && !summary.empty()) {
    summary = {};
    prompt = fitted(format, limits, summary, said, thinking);
  }
  if (!prompt || policy_ != ContextPolicy::kSlide) return prompt;
  // What a prompt without any turn begins with, too, is persona and examples.
  const auto bare = render(format, turns_.size(), summary, {}, thinking);
  if (bare) {
    const auto parted = std::mismatch(bare->begin(), bare->end(), prompt->tokens.begin(), prompt->tokens.end());
    prompt->pinned_tokens = static_cast<int32_t>(parted.first - bare->begin());
  }
  return prompt;
}

Result<Prompt> Conversation::fitted(const ChatFormat& format, const ContextLimits& limits, std::string_view summary,
                                    std::string_view said, Thinking thinking) const {
  const auto room = static_cast<size_t>(std::max(0, limits.context_tokens - limits.reply_reserve));
  Prompt prompt;
  auto whole = render(format, 0, summary, said, thinking);
  if (!whole) return whole.error();
  prompt.dropped_turns = forgotten_turns_;
  if (whole->size() <= room) {
    prompt.tokens = std::move(*whole);
    return prompt;
  }
  if (policy_ == ContextPolicy::kStop) {
    return Error{BANTER_ERROR_CONTEXT_FULL, "The conversation needs " + std::to_string(whole->size()) +
                                                " tokens, and the context less the reply reserve holds " +
                                                std::to_string(room) +
                                                "; reset it, or choose a policy that drops old turns."};
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
    auto tokens = render(format, from, summary, said, thinking);
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
    auto tokens = render(format, last_start, summary, said, thinking);
    if (!tokens) return tokens.error();
    if (tokens->size() <= room) {
      best = std::move(*tokens);
      best_from = last_start;
    }
  }
  if (!best) {
    auto smallest = render(format, last_start, summary, said, thinking);
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
  for (uint32_t i = 0; i < drop && !turns_.empty(); ++i) forget_oldest();
  forgotten_turns_ = 0;
  if (!said.empty()) add(Role::kUser, std::string(said), SIZE_MAX);
  add(Role::kAssistant, std::string(reply), SIZE_MAX);
}

void Conversation::add(Role role, std::string text, size_t limit_bytes) {
  const size_t bytes = text.size() + kTurnBytes;
  turns_.push_back({role, std::move(text)});
  turn_bytes_ += bytes;
  while (turn_bytes_ > limit_bytes && turns_.size() > 1) {
    forget_oldest();
    ++forgotten_turns_;
  }
}

void Conversation::forget_oldest() {
  turn_bytes_ -= turns_.front().text.size() + kTurnBytes;
  if (policy_ == ContextPolicy::kSummarize) {
    unsummarized_.push_back(std::move(turns_.front()));
    if (unsummarized_.size() > kMostUnsummarized) unsummarized_.pop_front();
  }
  turns_.pop_front();
}

std::string Conversation::summary_request(size_t limit_bytes, uint32_t words) const {
  size_t bytes = kSummaryTask.size() + kSummaryWhat.size() + summary_.size() + 64, first = unsummarized_.size();
  while (first > 0 && bytes + unsummarized_[first - 1].text.size() + 16 <= limit_bytes) {
    bytes += unsummarized_[--first].text.size() + 16;
  }
  // Whatever the limit, something to sum up: the newest, or its beginning.
  std::string clipped;
  if (first == unsummarized_.size() && first > 0) {
    const size_t room = limit_bytes > bytes ? limit_bytes - bytes : 0;
    clipped = text::utf8_prefix(unsummarized_[--first].text, std::max(room, kLeastSummarized));
  }
  std::string text(kSummaryTask);
  text += std::to_string(words);
  text += kSummaryWhat;
  if (!summary_.empty()) {
    text += "\nBefore that: ";
    text += summary_;
  }
  for (size_t i = first; i < unsummarized_.size(); ++i) {
    text += '\n';
    text += speaker(unsummarized_[i].role);
    text += clipped.empty() ? unsummarized_[i].text : clipped;
  }
  return text;
}

void Conversation::set_summary(std::string_view summary) {
  unsummarized_.clear();
  while (!summary.empty() && (summary.front() == ' ' || summary.front() == '\n')) summary.remove_prefix(1);
  while (!summary.empty() && (summary.back() == ' ' || summary.back() == '\n')) summary.remove_suffix(1);
  if (!summary.empty()) summary_.assign(text::utf8_prefix(summary, kMostSummaryBytes));
}

Conversation Conversation::restored(ConversationState state, ContextPolicy policy, size_t limit_bytes) {
  Conversation conversation(std::move(state.persona), std::move(state.examples), policy);
  conversation.summary_ = std::move(state.summary);
  conversation.forgotten_turns_ = state.forgotten_turns;
  for (Turn& turn : state.turns) conversation.add(turn.role, std::move(turn.text), limit_bytes);
  return conversation;
}

void Conversation::reset() {
  turns_.clear();
  turn_bytes_ = 0;
  forgotten_turns_ = 0;
  summary_.clear();
  unsummarized_.clear();
}

}  // namespace banter::dialogue
