#include "dialogue/stop_matcher.h"

#include <utility>

namespace banter::dialogue {

Result<StopMatcher> StopMatcher::create(std::span<const std::string> stops) {
  Result<StringAutomaton> automaton = StringAutomaton::create(stops, "stop string", false);
  if (!automaton) return automaton.error();
  return StopMatcher(std::move(*automaton));
}

bool StopMatcher::push(std::string_view text, std::string& released) {
  if (stopped()) return true;
  size_t keep = 0;  // bytes at the end of held_ + text that are not released
  size_t taken = 0;
  while (taken < text.size() && !stopped()) {
    state_ = automaton_.step(state_, text[taken++]);
    matched_ = automaton_.longest_match(state_);
  }
  keep = stopped() ? automaton_.length(matched_) : automaton_.depth(state_);
  text = text.substr(0, taken);
  if (keep <= text.size()) {
    released.append(held_).append(text.substr(0, text.size() - keep));
    held_.assign(text.substr(text.size() - keep));
  } else {  // all of the chunk is kept, and an end of what was held
    const size_t free = held_.size() + text.size() - keep;
    released.append(held_, 0, free);
    held_.erase(0, free);
    held_.append(text);
  }
  if (stopped()) held_.clear();
  return stopped();
}

void StopMatcher::finish(std::string& released) {
  if (!stopped()) released.append(held_);
  held_.clear();
  state_ = StringAutomaton::kStart;
}

void StopMatcher::reset() {
  held_.clear();
  state_ = StringAutomaton::kStart;
  matched_ = -1;
}

}  // namespace banter::dialogue
