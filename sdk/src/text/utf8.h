// UTF-8 and the few Unicode properties that tokenizers ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace banter::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD
inline constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";           // U+2581, SentencePiece's space

enum class Utf8Status : uint8_t {
  kOk,          // one code point
  kInvalid,     // `size` bytes that no continuation can turn into UTF-8 (a maximal ill-formed subpart, Unicode 3.9)
  kIncomplete,  // the text ends inside what may become a code point
};

struct Utf8Step {
  Utf8Status status = Utf8Status::kOk;
  uint32_t code_point = 0;  // kOk only
  uint32_t size = 0;        // bytes it covers, at least 1
};

/** Decodes the first code point of `text`, which must not be empty. */
Utf8Step utf8_step(std::string_view text);

/** Size in bytes of the code point that starts with `lead`, in text known to be valid. */
inline uint32_t utf8_size(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/** The longest prefix of `text` of at most `limit` bytes that ends between code points; `limit` bytes where valid text
 *  would have none. */
std::string_view utf8_prefix(std::string_view text, size_t limit);

bool utf8_is_valid(std::string_view text);
bool is_ascii(std::string_view text);

/** Appends a code point (a Unicode scalar value). */
void utf8_append(uint32_t code_point, std::string& out);

/** Appends `text` with U+FFFD in place of every ill-formed subpart, an incomplete end included. */
void utf8_append_lossy(std::string_view text, std::string& out);

/** Unicode White_Space. */
bool is_white_space(uint32_t code_point);
/** Letter, mark, decimal digit or connector punctuation: what \w means in tokenizer.json files. */
bool is_word_character(uint32_t code_point);

/** The code point that stands for `byte` in the GPT-2 byte alphabet: printable bytes stand for themselves, the other 68,
 *  in order, for U+0100, U+0101, … */
uint32_t byte_alphabet_code_point(uint8_t byte);
/** The byte that a code point of the byte alphabet stands for, or -1. */
int byte_of_alphabet(uint32_t code_point);

}  // namespace banter::text
