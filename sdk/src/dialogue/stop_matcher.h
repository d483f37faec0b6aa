// Stop strings: ends a reply at them, and shows nothing of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "dialogue/string_automaton.h"

namespace banter::dialogue {

/** Passes streamed text on as soon as it cannot be part of a stop string any more. Text is released in order, nothing twice;
 *  the longest end that a stop string may begin with is held back.
 *
 *  The stop that is found is the one that is complete first, so generation ends as early as it can and the result does not
 *  depend on how the text was cut into chunks; of several that end at the same byte, the longest. Released text is whole
 *  code points when the chunks are. One reply, one thread; copyable. Allocates only in the strings it appends to, and when
 *  what is held grows beyond any before (at most the longest stop string).
 *
 *      StopMatcher stop = …;
 *      if (stop.push(chunk, out)) → the reply is finished: `out` ends right before the stop string
 *      stop.finish(out)           → the reply ended for another reason: `out` gets what was held back */
class StopMatcher {
 public:
  /** No stop strings: everything is passed on at once.
   *  @returns INVALID_ARGUMENT naming a stop string that is empty or not UTF-8, or too many of them */
  static Result<StopMatcher> create(std::span<const std::string> stops);

  /** Appends to `released` what may be shown. @returns whether a stop string was found (now or earlier; text after it is
   *  ignored) */
  bool push(std::string_view text, std::string& released);
  /** End of the text: appends what is held, unless stopped. */
  void finish(std::string& released);

  bool stopped() const { return matched_ >= 0; }
  /** Index of the stop string that was found, or -1. */
  int32_t matched() const { return matched_; }
  /** Bytes held back. */
  size_t held() const { return held_.size(); }
  /** Ready for another reply. */
  void reset();

 private:
  explicit StopMatcher(StringAutomaton automaton) : automaton_(std::move(automaton)) {}

  StringAutomaton automaton_;
  StringAutomaton::State state_ = StringAutomaton::kStart;
  std::string held_;  // the last depth(state_) bytes of the text
  int32_t matched_ = -1;
};

}  // namespace banter::dialogue
