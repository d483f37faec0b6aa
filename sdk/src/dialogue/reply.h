// A reply as it is generated: which token ends it, what is taken back, what is thought, and which text may be shown.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialogue/banned_strings.h"
#include "dialogue/chat_format.h"
#include "dialogue/outgoing.h"
#include "dialogue/stop_matcher.h"
#include "dialogue/thought_splitter.h"
#include "text/tokenizer.h"

namespace banter::dialogue {

struct ReplyOptions {
  std::vector<std::string> stop_strings;
  std::vector<std::string> banned_strings;
  std::vector<text::TokenId> stop_tokens;
  bool ignore_end = false;    // go on after end tokens
  bool special_text = false;  // show control tokens

  const ThinkingTags* tags = nullptr;  // null: everything is speech. Must outlive the reply
  bool starts_in_thought = false;      // the prompt has opened one
  bool report_thought = false;         // thoughts are shown, as such
  uint32_t thought_budget = 0;         // most tokens inside thoughts; 0: no limit
};

/** What a token means for the reply. */
struct Verdict {
  enum Kind : uint8_t {
    kGoOn,
    kEnd,  // an end token, a control token that stands between turns, or the plain script's end
    kStopString,
    kStopToken,
    kRollBack,  // forget the newest `tokens` tokens of the reply, the one just pushed included, and choose again
    kExhausted  // forget as many, then end: a banned string cannot be avoided
  };
  Kind kind = kGoOn;
  int32_t tokens = 0;
};

/** One reply. Tokens go through the gate of banned strings, are split into thought and speech, become whole code points,
 *  then pass the stop strings. Text that is added to `shown` is final. Engine thread only.
 *
 *  Stop strings, banned strings and stop tokens are about speech: a thought may contain them (a stop token that is a tag
 *  counts everywhere). They see speech before and after a thought as one text. A token that ends the model's turn ends
 *  the reply inside a thought, too: then nothing was said. */
class Reply {
 public:
  /** @param format  null for completions: then only end tokens and the options end it. Must outlive the reply, as the
   *                 tokenizer must. Errors: INVALID_ARGUMENT, naming the string. */
  static Result<Reply> create(const text::Tokenizer& tokenizer, const ChatFormat* format, const ReplyOptions& options);

  Verdict push(text::TokenId id, Outgoing& shown);
  /** No token can be chosen now. kRollBack where taking back helps, else kExhausted; `tokens` does not count one that
   *  was just pushed, since none was. */
  Verdict dead_end(Outgoing& shown);
  /** The reply ended for a reason outside: shows what was held back, unless a stop string was found. */
  void finish(Outgoing& shown);

  /** Tokens that must come next, after a push() that gave kGoOn: the thought has used up its budget, and they end it. To be
   *  pushed one after another as if they had been chosen; empty: choose. */
  std::span<const text::TokenId> forced_tokens() const;

  /** Reserves memory for a reply of up to `count` tokens of ordinary length. */
  void expect_tokens(size_t count);

  /** Not to be chosen as the next token. Valid until the next call. */
  std::span<const text::TokenId> banned_tokens() const { return gate_.banned_now(); }
  uint32_t rollbacks() const { return gate_.rollbacks(); }
  /** Newest tokens that may still be taken back, or turn out to be part of a tag. */
  size_t revocable_tokens() const { return std::max<size_t>(gate_.held(), ahead_.undecided_tokens()); }
  /** The reply's token `index` is part of a thought or a tag. */
  bool is_hidden(size_t index) const { return index < hidden_.size() && hidden_[index] != 0; }
  /** How many are. */
  uint32_t hidden_tokens() const;
  bool in_thought() const { return ahead_.in_thought(); }
  /** All speech shown so far. */
  const std::string& text() const { return text_; }

 private:
  /** What a token taken back leaves behind. */
  struct Before {
    ThoughtSplitter ahead;
    size_t said_bytes = 0;
  };

  Reply(const text::Tokenizer& tokenizer, const ChatFormat* format, BannedStrings gate, StopMatcher stops);
  std::string_view bytes_of(text::TokenId id) const;
  /** Splits the newest token's bytes, and returns what of them the gate must watch. */
  std::string_view look_ahead(std::string_view bytes);
  /** Passes on what the gate let out; true when a stop string was found. */
  bool show_released(Outgoing& shown);
  bool pass(bool thought, Outgoing& shown);
  bool say(std::string_view text, Outgoing& shown);
  void show(std::string_view text, Outgoing& shown);
  Verdict stopped() const;
  Verdict after_gate(BannedStrings::Outcome outcome, Outgoing& shown);

  const text::Tokenizer* tokenizer_;
  const ChatFormat* format_;
  const ThinkingTags* tags_ = nullptr;
  BannedStrings gate_;
  StopMatcher stops_;
  ThoughtSplitter ahead_;    // of all tokens, before the gate
  ThoughtSplitter settled_;  // of those that the gate has let out
  text::StreamDecoder decoder_, thought_decoder_;
  std::vector<text::TokenId> stop_tokens_;
  size_t user_stops_ = 0;  // stop strings of the request; the format's follow
  bool ignore_end_ = false, special_text_ = false, report_thought_ = false;
  bool at_start_ = true;
  bool holds_leading_ = false;  // white space before a thought is not shown
  uint32_t thought_budget_ = 0;
  uint32_t thoughts_before_ = 0;  // thoughts that began before piece_
  std::vector<uint8_t> hidden_;   // for each token of the reply
  std::vector<Before> before_;    // for each token that the gate holds
  std::string said_;              // all speech ahead_ gave, where strings are banned
  std::string text_;
  std::string leading_;
  std::string split_, piece_, decoded_, released_;  // scratch
};

}  // namespace banter::dialogue
