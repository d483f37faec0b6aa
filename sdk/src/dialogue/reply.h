// A reply as it is generated: which token ends it, what is taken back, and which text may be shown.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialogue/banned_strings.h"
#include "dialogue/chat_format.h"
#include "dialogue/stop_matcher.h"
#include "text/tokenizer.h"

namespace banter::dialogue {

struct ReplyOptions {
  std::vector<std::string> stop_strings;
  std::vector<std::string> banned_strings;
  std::vector<text::TokenId> stop_tokens;
  bool ignore_end = false;    // go on after end tokens
  bool special_text = false;  // show control tokens
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

/** One reply. Tokens go through the gate of banned strings, then become whole code points, then pass the stop strings.
 *  Text that is appended to `shown` is final. Engine thread only. */
class Reply {
 public:
  /** @param format  null for completions: then only end tokens and the options end it. Must outlive the reply, as the
   *                 tokenizer must. Errors: INVALID_ARGUMENT, naming the string. */
  static Result<Reply> create(const text::Tokenizer& tokenizer, const ChatFormat* format, const ReplyOptions& options);

  Verdict push(text::TokenId id, std::string& shown);
  /** No token can be chosen now. kRollBack where taking back helps, else kExhausted; `tokens` does not count one that
   *  was just pushed, since none was. */
  Verdict dead_end(std::string& shown);
  /** The reply ended for a reason outside: shows what was held back, unless a stop string was found. */
  void finish(std::string& shown);

  /** Reserves memory for a reply of up to `count` tokens of ordinary length. */
  void expect_tokens(size_t count);

  /** Not to be chosen as the next token. Valid until the next call. */
  std::span<const text::TokenId> banned_tokens() const { return gate_.banned_now(); }
  uint32_t rollbacks() const { return gate_.rollbacks(); }
  /** Newest tokens that may still be taken back. */
  size_t revocable_tokens() const { return gate_.held(); }
  /** Everything shown so far. */
  const std::string& text() const { return text_; }

 private:
  Reply(const text::Tokenizer& tokenizer, const ChatFormat* format, BannedStrings gate, StopMatcher stops);
  /** Passes on what the gate let out; true when a stop string was found. */
  bool show_released(std::string& shown);
  void show(std::string_view text, std::string& shown);
  Verdict stopped() const;
  Verdict after_gate(BannedStrings::Outcome outcome, std::string& shown);

  const text::Tokenizer* tokenizer_;
  const ChatFormat* format_;
  BannedStrings gate_;
  StopMatcher stops_;
  text::StreamDecoder decoder_;
  std::vector<text::TokenId> stop_tokens_;
  size_t user_stops_ = 0;  // stop strings of the request; the format's follow
  bool ignore_end_ = false, special_text_ = false;
  bool at_start_ = true;
  std::string text_;
  std::string decoded_, released_;  // scratch
};

}  // namespace banter::dialogue
