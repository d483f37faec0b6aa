#include "dialogue/banned_strings.h"

#include <algorithm>
#include <utility>

namespace banter::dialogue {

Result<BannedStrings> BannedStrings::create(std::span<const std::string> banned, Options options) {
  constexpr int32_t kMaxRollbacks = 1 << 20;
  if (options.max_rollbacks < 1 || options.max_rollbacks > kMaxRollbacks)
    return Error{BANTER_ERROR_INVALID_ARGUMENT, "max_rollbacks of banned strings is " +
                                                    std::to_string(options.max_rollbacks) + "; give a value in [1, " +
                                                    std::to_string(kMaxRollbacks) + "]."};
  Result<StringAutomaton> automaton = StringAutomaton::create(banned, "banned string", options.ignore_ascii_case);
  if (!automaton) return automaton.error();
  return BannedStrings(std::move(*automaton), options);
}

BannedStrings::Outcome BannedStrings::push(TokenId token, std::string_view bytes) {
  released_.clear();
  held_.push_back({token, bytes.size(), state_});
  bool found = false;
  size_t target = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    state_ = automaton_.step(state_, bytes[i]);
    // Every string that is complete here needs this token, so going back to any of them breaks them all: take least back.
    if (const int32_t match = automaton_.shortest_match(state_); match >= 0) {
      target = std::max(target, token_at(automaton_.length(match), i + 1));
      found = true;
    }
  }
  if (found) return go_back_to(target);
  release_what_is_safe();
  return Outcome::kContinue;
}

/** Index in held_ of the token with the first of the newest `length` bytes, of which the last token gave `bytes_of_last`. */
size_t BannedStrings::token_at(size_t length, size_t bytes_of_last) const {
  size_t index = held_.size() - 1;
  for (size_t there = bytes_of_last; length > there && index > 0; there = held_[index].bytes) {
    length -= there;
    --index;
  }
  return index;
}

BannedStrings::Outcome BannedStrings::go_back_to(size_t index) {
  const Held target = held_[index];
  rollback_ = {static_cast<int32_t>(held_.size() - index), target.token, first_held_ + static_cast<int64_t>(index)};
  held_.resize(index);
  state_ = target.before;
  if (rollbacks_ == static_cast<uint32_t>(options_.max_rollbacks)) {
    release(held_.size());
    return Outcome::kExhausted;
  }
  ++rollbacks_;
  while (!ban_positions_.empty() && ban_positions_.back() > rollback_.position) {
    ban_positions_.pop_back();
    ban_tokens_.pop_back();
  }
  ban_positions_.push_back(rollback_.position);
  ban_tokens_.push_back(target.token);
  return Outcome::kRollback;
}

BannedStrings::Outcome BannedStrings::dead_end() {
  released_.clear();
  if (!banned_now().empty() && !held_.empty()) return go_back_to(held_.size() - 1);
  rollback_ = {0, -1, position()};
  release(held_.size());
  return Outcome::kExhausted;
}

void BannedStrings::continue_from(std::string_view text) {
  state_ = StringAutomaton::kStart;
  for (const char byte : text) state_ = automaton_.step(state_, byte);
}

void BannedStrings::finish() {
  released_.clear();
  release(held_.size());
}

/** A token stays while a banned string may begin in it: now, or after going back to a token that stays. (With "abX" and
 *  "bcY" banned and "abc" said, "a" must stay: "abcY" would go back to "b", and "abX" may follow.) */
void BannedStrings::release_what_is_safe() {
  size_t first = held_.size();
  size_t needed = automaton_.depth(state_);  // bytes before held_[first] in which one may begin
  while (first > 0 && needed > 0) {
    --first;
    needed = std::max(needed - std::min(needed, held_[first].bytes), automaton_.depth(held_[first].before));
  }
  release(first);
}

void BannedStrings::release(size_t count) {
  for (size_t i = 0; i < count; ++i) released_.push_back(held_[i].token);
  held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(count));
  first_held_ += static_cast<int64_t>(count);
  const auto kept = std::lower_bound(ban_positions_.begin(), ban_positions_.end(), first_held_);
  const ptrdiff_t outdated = kept - ban_positions_.begin();
  ban_positions_.erase(ban_positions_.begin(), kept);
  ban_tokens_.erase(ban_tokens_.begin(), ban_tokens_.begin() + outdated);
}

std::span<const BannedStrings::TokenId> BannedStrings::banned_now() const {
  const auto first = std::lower_bound(ban_positions_.begin(), ban_positions_.end(), position());
  return std::span(ban_tokens_).subspan(static_cast<size_t>(first - ban_positions_.begin()));
}

}  // namespace banter::dialogue
