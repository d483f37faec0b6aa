// Tells a thinking model's hidden reasoning from its speech, in a stream of tokens' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace banter::dialogue {

/** What a request wants of a model that can think before it speaks. */
enum class Thinking : uint8_t { kAuto, kOff, kOn };

/** How a model marks its reasoning. */
struct ThinkingTags {
  std::string open = "<think>", close = "</think>";
  text::TokenId open_id = -1, close_id = -1;  // where the vocabulary has them as one token, else -1
  /** The template or the vocabulary knows the tags: they count anywhere in a reply. Else only at its very start, so that
   *  a character may talk about tags. */
  bool known = false;
  /** Tokens that end a thought, in the model's own manner; `…_new_line` when the thought does not end a line already.
   *  Empty where the vocabulary cannot spell the tag. */
  std::vector<text::TokenId> end_tokens, end_tokens_new_line;
};

/** Splits one reply into thought and speech, byte by byte.
 *
 *  - A thought starts with the opening tag (or before the reply, in the prompt) and ends with the next closing tag. An
 *    opening tag inside a thought is part of the thought: thoughts do not nest. There may be several.
 *  - Tags come out in neither part; a closing tag without a thought is dropped (known tags only).
 *  - Bytes that may be the start of a tag are undecided until more is known: undecided().
 *  - White space after a closing tag is dropped, where nothing or a white space was said before it.
 *
 *  Copying is cheap: a copy is the way back when tokens are taken back. `tags` must outlive all copies. */
class ThoughtSplitter {
 public:
  /** No tags: everything is speech. */
  ThoughtSplitter() = default;
  ThoughtSplitter(const ThinkingTags& tags, bool starts_in_thought)
      : tags_(&tags), in_thought_(starts_in_thought), thoughts_(starts_in_thought ? 1 : 0) {}

  /** Takes the bytes of one token ("" counts too) and calls emit(bool thought, char byte) for what is decided now.
   *  Afterwards hidden(), tagged_tokens() and unsaid() are of this call. */
  template <class Emit>
  void push(std::string_view bytes, Emit&& emit) {
    const bool was_thought = in_thought_;
    bool carried = undecided_ > 0;  // what is undecided now began in an earlier token
    tagged_tokens_ = 0;
    unsaid_ = false;
    bool tagged = false;
    for (const char byte : bytes) {
      if (!extend(byte)) {
        const std::string_view text = undecided();
        for (const char c : text) put(c, emit);
        undecided_ = 0;
        carried = false;
        if (!extend(byte)) {
          put(byte, emit);
          continue;
        }
      }
      if (!complete()) continue;
      if (carried) {
        tagged_tokens_ = undecided_tokens_;
        unsaid_ = !in_thought_;
      }
      tagged = true;
      carried = false;
      cross();
    }
    undecided_tokens_ = undecided_ == 0 ? 0 : carried ? undecided_tokens_ + 1 : 1;
    hidden_ = was_thought || in_thought_ || tagged;
    if (was_thought) ++thought_tokens_;
  }
  /** The reply ends: what was undecided is text. */
  template <class Emit>
  void finish(Emit&& emit) {
    for (const char c : undecided()) put(c, emit);
    undecided_ = 0;
  }

  bool in_thought() const { return in_thought_; }
  /** Thoughts so far. */
  uint32_t thoughts() const { return thoughts_; }
  /** Tokens pushed inside thoughts so far, those of closing tags included. */
  uint32_t thought_tokens() const { return thought_tokens_; }
  /** The thought so far ends a line, or has no text yet. */
  bool at_line_start() const { return undecided_ == 0 && line_start_; }
  /** Bytes that may be the start of a tag, and in how many of the newest tokens they are. */
  std::string_view undecided() const { return std::string_view(closes_ ? tags_->close : open()).substr(0, undecided_); }
  uint32_t undecided_tokens() const { return undecided_tokens_; }
  /** The newest token belongs to a thought or a tag. */
  bool hidden() const { return hidden_; }
  /** A tag was completed whose start was in this many tokens before the newest. */
  uint32_t tagged_tokens() const { return tagged_tokens_; }
  /** It began in speech, where its start had been undecided(). */
  bool unsaid() const { return unsaid_; }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  std::string_view open() const { return tags_ == nullptr ? std::string_view() : std::string_view(tags_->open); }

  /** Adds a byte to the undecided ones, when together they are the start of a tag that counts here. */
  bool extend(char byte) {
    if (tags_ == nullptr) return false;
    const bool may_open = !in_thought_ && (tags_->known || (!said_ && thoughts_ == 0));
    const bool may_close = in_thought_ || tags_->known;
    const auto fits = [&](const std::string& tag) {
      return undecided_ < tag.size() && tag[undecided_] == byte &&
             std::string_view(tag).substr(0, undecided_) == undecided();
    };
    const bool opens = may_open && fits(tags_->open);
    const bool closes = may_close && fits(tags_->close);
    if (!opens && !closes) return false;
    closes_ = closes && !opens;
    ++undecided_;
    return true;
  }
  bool complete() const { return undecided_ == (closes_ ? tags_->close : tags_->open).size(); }
  void cross() {
    undecided_ = 0;
    if (closes_) {
      in_thought_ = false;
      drops_space_ = !said_ || said_space_;
    } else {
      in_thought_ = true;
      line_start_ = true;
      ++thoughts_;
    }
  }
  template <class Emit>
  void put(char c, Emit& emit) {
    if (in_thought_) {
      line_start_ = c == '\n';
      emit(true, c);
      return;
    }
    const bool space = is_space(c);
    if (space && drops_space_) return;
    drops_space_ = false;
    said_ = said_ || !space;
    said_space_ = space;
    emit(false, c);
  }

  const ThinkingTags* tags_ = nullptr;
  bool in_thought_ = false;
  uint32_t thoughts_ = 0;
  uint32_t thought_tokens_ = 0;
  uint32_t undecided_ = 0;  // bytes
  uint32_t undecided_tokens_ = 0, tagged_tokens_ = 0;
  bool closes_ = false;  // the undecided bytes start the closing tag, else the opening one
  bool said_ = false;    // speech other than white space
  bool said_space_ = false, drops_space_ = false, line_start_ = true;
  bool hidden_ = false, unsaid_ = false;
};

/** The tags of a model. @param chat_template  the one in use; may be empty */
ThinkingTags find_thinking_tags(const text::Tokenizer& tokenizer, std::string_view chat_template);

/** The text of `prompt` ends with the opening tag and white space: the reply starts inside a thought. */
bool ends_in_open_thought(const text::Tokenizer& tokenizer, const ThinkingTags& tags,
                          const std::vector<text::TokenId>& prompt);

}  // namespace banter::dialogue
