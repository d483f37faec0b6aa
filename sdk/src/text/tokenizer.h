// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/vocabulary.h"

namespace banter::text {

using TokenId = int32_t;

/** A run of text, and whether control tokens written in it count as such. Only template text is trusted. */
struct Segment {
  std::string text;
  bool trusted = false;
};

/** A tokenizer. Immutable after creation: any number of threads may use it. Ids out of range are harmless everywhere. */
class Tokenizer {
 public:
  /** Builds the tables. vocabulary() is the one given, but for `merges`, which is emptied to save memory.
   *  Errors: CORRUPT (ids or merges that name no token, …), UNSUPPORTED_TOKENIZER (a split pattern beyond us). */
  static Result<std::unique_ptr<Tokenizer>> create(formats::Vocabulary vocabulary);
  virtual ~Tokenizer() = default;

  /** Appends the ids of `text` to `out`. Invalid UTF-8 is replaced by U+FFFD first. Time is O(n log n) for any text.
   *  @param parse_special  control tokens spelled in `text` become those tokens (never for outside text). Without it
   *  plain added tokens still count, but for those that structure a conversation (special_spelling.h) or end a reply. */
  virtual void encode(std::string_view text, bool parse_special, std::vector<TokenId>& out) const = 0;
  /** Ids of a rendered conversation: adjacent segments form one text (splits may span their borders, as the model was
   *  trained), but control tokens are recognised only where every byte of their spelling is trusted. */
  virtual void encode(std::span<const Segment> segments, std::vector<TokenId>& out) const = 0;
  /** Adds the begin/end tokens that the model asks for around `ids`. */
  virtual void add_special(std::vector<TokenId>& ids) const = 0;

  /** Raw bytes of one token (may be part of a code point). Control tokens give "" unless `special`. */
  virtual std::string_view token_bytes(TokenId id, bool special = false) const = 0;
  /** The text of ids, with the model's own treatment of leading spaces. Bytes that are no UTF-8 become U+FFFD, one for
   *  each maximal ill-formed part. */
  virtual std::string decode(std::span<const TokenId> ids, bool special = false) const = 0;

  virtual bool is_control(TokenId id) const = 0;
  virtual bool is_end_of_generation(TokenId id) const = 0;
  /** Tokens that must never be sampled (padding, unused). */
  virtual bool is_unused(TokenId id) const = 0;
  /** Id of a token by its stored text, or -1. */
  virtual TokenId find(std::string_view stored_text) const = 0;
  virtual const formats::Vocabulary& vocabulary() const = 0;
  size_t size() const { return vocabulary().tokens.size(); }
};

/** Turns a stream of tokens into text, a whole number of UTF-8 code points at a time. One reply, one thread.
 *  All that push() gives, joined, is decode() of the same ids, but for an incomplete end: decode() shows it as U+FFFD, the
 *  stream keeps it back. The tokenizer must outlive the decoder. */
class StreamDecoder {
 public:
  /** @param first_of_text  the reply starts a text of its own (SentencePiece then drops one leading space) */
  explicit StreamDecoder(const Tokenizer& tokenizer, bool first_of_text = false);
  /** Appends what became complete with this token to `out`. Bytes that can never form UTF-8 become U+FFFD. */
  void push(TokenId id, std::string& out);
  /** The same for bytes that do not come from one token. */
  void push_bytes(std::string_view bytes, std::string& out);
  /** Ends the text: an incomplete tail is dropped (a reply cut by a length limit must not end in U+FFFD). */
  void finish();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
  bool at_start_;
};

}  // namespace banter::text
