// Strings of the template language: UTF-8 in which every byte knows whether the template or the outside wrote it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/budget.h"

namespace banter::text::jinja {

inline constexpr size_t kEnd = static_cast<size_t>(-1);

/** An immutable string: valid UTF-8 with a trust map. Positions are bytes unless a name says code points. */
class Text {
 public:
  /** @param flips  ascending offsets at which trust changes, starting from `trusted_start`
   *  @param budget counts the bytes until destruction; null for text of the template itself, which outlives renders */
  Text(std::string bytes, bool trusted_start, std::vector<size_t> flips, bool markup, Budget* budget);
  ~Text();
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  std::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /** Code points. */
  size_t length() const { return length_; }
  bool ascii() const { return length_ == bytes_.size(); }
  bool trusted_at(size_t offset) const;
  /** Every byte is the template's. An empty text is trusted. */
  bool all_trusted() const { return bytes_.empty() || (trusted_start_ && flips_.empty()); }
  bool trusted_start() const { return trusted_start_; }
  const std::vector<size_t>& flips() const { return flips_; }
  /** Result of `escape` or `safe`: what is added to it gets escaped. */
  bool markup() const { return markup_; }
  /** Byte offset of a code point index in [0, length()]. */
  size_t offset_of(size_t code_point) const;

 private:
  std::string bytes_;
  std::vector<size_t> flips_;
  size_t length_;
  Budget* budget_;
  bool trusted_start_;
  bool markup_;
};

using TextPtr = std::shared_ptr<const Text>;

/** Collects a string with its trust map. When the budget is exhausted it stops growing; the caller sees budget.ok(). */
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(&budget) {}
  ~TextBuilder() { budget_->release(reserved_); }
  TextBuilder(const TextBuilder&) = delete;
  TextBuilder& operator=(const TextBuilder&) = delete;

  /** Appends valid UTF-8. */
  void append(std::string_view bytes, bool trusted);
  /** Appends bytes [begin, end) of `text`, which are whole code points. */
  void append(const Text& text, size_t begin = 0, size_t end = kEnd);
  void append_code_point(char32_t code_point, bool trusted);
  /** Appends `unit` until `count` copies are written. */
  void repeat(const Text& unit, uint64_t count);
  void repeat(char byte, uint64_t count, bool trusted);
  size_t size() const { return bytes_.size(); }
  Budget& budget() { return *budget_; }
  /** The text so far; leaves the builder empty. */
  TextPtr finish(bool markup = false);
  /** Gives the parts away without making a Text (the end of a render). */
  void take(std::string* bytes, bool* trusted_start, std::vector<size_t>* flips);

 private:
  bool grow(size_t bytes);

  Budget* budget_;
  std::string bytes_;
  std::vector<size_t> flips_;
  size_t reserved_ = 0;
  bool trusted_start_ = true;
  bool trusted_now_ = true;
};

/** Bytes [begin, end) of `text`; `text` itself where that is all of it. */
TextPtr slice(Budget& budget, const TextPtr& text, size_t begin, size_t end);

/** Decodes the code point at `*offset` of valid UTF-8 and moves behind it. */
char32_t next_code_point(std::string_view bytes, size_t* offset);
/** Start of the code point that ends at `offset` > 0. */
size_t previous_offset(std::string_view bytes, size_t offset);
/** UTF-8 bytes of a code point; surrogates and values beyond U+10FFFF become U+FFFD. */
void append_utf8(std::string* out, char32_t code_point);
size_t count_code_points(std::string_view bytes);
/** `bytes` with every ill-formed sequence replaced by U+FFFD (one per maximal subpart). */
std::string sanitize_utf8(std::string_view bytes);

/** White space of Python's str.isspace(). */
bool is_space(char32_t c);
/** Characters that Python's repr() writes as they are. */
bool is_printable(char32_t c);
/** Line ends of Python's str.splitlines(). */
bool is_line_break(char32_t c);

/** Appends text[begin, end) in upper/lower/title case (full mappings), each byte trusted as its source. */
void append_upper(TextBuilder& out, const Text& text, size_t begin, size_t end);
void append_lower(TextBuilder& out, const Text& text, size_t begin, size_t end);
void append_title_char(TextBuilder& out, const Text& text, size_t* offset);

}  // namespace banter::text::jinja
