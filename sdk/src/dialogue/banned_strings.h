// Banned strings: takes a reply back to before a string that must not be said, and has it go on differently.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialogue/string_automaton.h"

namespace banter::dialogue {

/** A gate between the sampler and the text of one reply. Tokens go in as they are sampled; those come out that can be part
 *  of no banned string any more. When a banned string is complete, no token that carries any of it has come out: the gate
 *  tells how many tokens to take back and which one may not come at that place again.
 *
 *  It holds whole tokens, because a token is resampled as a whole: of " Hello As", held for "As an AI", not even " Hello"
 *  may be shown. It works on the raw bytes of tokens, before StreamDecoder, so code points that are spread over tokens need
 *  no thought, and neither StreamDecoder nor StopMatcher ever has to go back.
 *
 *  How an engine drives it, for one reply to a prompt of n tokens (sampling position p needs n + p tokens in the KV cache):
 *
 *      for (;;) {
 *        logits of position gate.position()
 *        bans = tokens banned by grammar etc. + gate.banned_now()
 *        token = sampler.sample(logits, bans, draw_position(gate.position(), gate.rollbacks()))
 *        if (token == -1)                     outcome = gate.dead_end()
 *        else if (is an end token)            break
 *        else sampler.accept(token),          outcome = gate.push(token, tokenizer.token_bytes(token, special_text))
 *        for (id : gate.released())           decoder.push(id, text);            // StreamDecoder
 *                                             if (stop.push(text, shown)) end the reply   // StopMatcher
 *        if (outcome == kContinue)            run `token`, continue
 *        r = gate.rollback()
 *        sampler.rollback(r.tokens_to_drop), drop as many from the reply's token list,
 *        if (outcome == kExhausted)           end the reply
 *        truncate the KV cache to n + r.position - 1 tokens and run the next token of the text again (the reply's token
 *        r.position - 1, or the prompt's last): its logits are needed anew. Layers that forget old tokens (sliding windows)
 *        must therefore keep gate.held() + 1 tokens more than they attend to
 *      }
 *      gate.finish(); pass gate.released() on; decoder.finish(); stop.finish(shown)
 *
 *  The same end is due when the reply is cut by a length limit; a cancelled reply may drop the gate. A stop string is seen
 *  when its tokens come out, which is later by what the gate holds; a ban inside or right after a stop string still counts.
 *  A reply's length limit should count gate.position(), not the tokens sampled.
 *
 *  Guarantee: the bytes of all released tokens, joined, contain no banned string, nor does the text that StreamDecoder
 *  makes of them (unless a banned string contains U+FFFD). Text before the reply takes no part: a string that begins in the
 *  prompt is not found. One reply, one thread; copyable. Allocates when more is held, or banned, than ever before. */
class BannedStrings {
 public:
  using TokenId = int32_t;
  struct Options {
    bool ignore_ascii_case = false;  // "As an AI" bans "as an ai" too
    int32_t max_rollbacks = 256;     // then the reply ends before the string: time and power are bounded
  };
  enum class Outcome {
    kContinue,   // go on with the next position
    kRollback,   // do as rollback() says
    kExhausted,  // do as rollback() says, then end the reply: too many rollbacks, or no token is left to try
  };
  struct Rollback {
    int32_t tokens_to_drop = 0;  // the newest tokens pushed, the one just pushed included
    TokenId banned_token = -1;   // what stood at `position`; banned_now() has it from now on
    int64_t position = 0;        // index in the reply of the next token to sample
  };

  /** No strings: every token comes out at once.
   *  @returns INVALID_ARGUMENT naming a banned string that is empty or not UTF-8, or too many of them, or an option */
  static Result<BannedStrings> create(std::span<const std::string> banned, Options options);

  /** Takes the next token of the reply. @param bytes  what it adds to the text; "" for control tokens that are not shown */
  Outcome push(TokenId token, std::string_view bytes);
  /** To be called when no token can be sampled at position(). Where the bans of this gate are the reason and the token
   *  before is still held, that one is taken back; else kExhausted. */
  Outcome dead_end();
  /** What comes next continues `text`, as if the bytes pushed after it had never been: they turned out not to be shown. The
   *  tokens stay where they are. */
  void continue_from(std::string_view text);
  /** The reply ended: everything held is released. */
  void finish();

  /** What the last call other than kContinue asks for. */
  const Rollback& rollback() const { return rollback_; }
  /** The tokens that the last push(), dead_end() or finish() let out, in order. Valid until the next. */
  std::span<const TokenId> released() const { return released_; }
  /** The tokens that may not be sampled at position(). Valid until the next call. */
  std::span<const TokenId> banned_now() const;
  /** Index in the reply of the next token. */
  int64_t position() const { return first_held_ + static_cast<int64_t>(held_.size()); }
  /** Rollbacks so far: part of the position of a random draw. */
  uint32_t rollbacks() const { return rollbacks_; }
  /** No string is banned. */
  bool empty() const { return automaton_.empty(); }
  /** Tokens held back. */
  size_t held() const { return held_.size(); }

 private:
  struct Held {
    TokenId token;
    size_t bytes;
    StringAutomaton::State before;  // before its first byte
  };

  BannedStrings(StringAutomaton automaton, Options options) : automaton_(std::move(automaton)), options_(options) {}
  size_t token_at(size_t length, size_t bytes_of_last) const;
  Outcome go_back_to(size_t held_index);
  void release(size_t count);
  void release_what_is_safe();

  StringAutomaton automaton_;
  Options options_;
  StringAutomaton::State state_ = StringAutomaton::kStart;
  std::vector<Held> held_;
  int64_t first_held_ = 0;  // position of held_[0]
  std::vector<TokenId> released_;
  // Bans by position, ascending. Those after the position gone back to are forgotten: they belong to another text.
  std::vector<int64_t> ban_positions_;
  std::vector<TokenId> ban_tokens_;
  Rollback rollback_;
  uint32_t rollbacks_ = 0;
};

}  // namespace banter::dialogue
