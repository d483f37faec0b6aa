#include "text/utf8.h"

#include <utf8proc.h>

#include <array>
#include <cstring>

namespace banter::text {
namespace {

// Second-byte ranges by lead byte (Unicode table 3-7): they exclude overlong forms, surrogates and values past U+10FFFF.
struct LeadInfo {
  uint8_t size;  // 0 = no lead byte
  uint8_t second_min, second_max;
};

constexpr LeadInfo lead_info(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

constexpr bool is_self_printing(uint8_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteAlphabet {
  std::array<uint16_t, 256> code_points{};
  std::array<int16_t, 0x144> bytes{};
};

constexpr ByteAlphabet make_byte_alphabet() {
  ByteAlphabet alphabet;
  for (auto& byte : alphabet.bytes) byte = -1;
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const uint16_t code_point = is_self_printing(static_cast<uint8_t>(byte)) ? static_cast<uint16_t>(byte) : next++;
    alphabet.code_points[static_cast<size_t>(byte)] = code_point;
    alphabet.bytes[code_point] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr ByteAlphabet kByteAlphabet = make_byte_alphabet();

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const LeadInfo lead = lead_info(byte(0));
  if (lead.size == 1) return {Utf8Status::kOk, byte(0), 1};
  if (lead.size == 0) return {Utf8Status::kInvalid, 0, 1};
  if (text.size() < 2) return {Utf8Status::kIncomplete, 0, 1};
  if (byte(1) < lead.second_min || byte(1) > lead.second_max) return {Utf8Status::kInvalid, 0, 1};
  uint32_t code_point = ((byte(0) & (0x7Fu >> lead.size)) << 6) | (byte(1) & 0x3Fu);
  for (uint32_t i = 2; i < lead.size; ++i) {
    if (i >= text.size()) return {Utf8Status::kIncomplete, 0, i};
    if ((byte(i) & 0xC0) != 0x80) return {Utf8Status::kInvalid, 0, i};
    code_point = (code_point << 6) | (byte(i) & 0x3Fu);
  }
  return {Utf8Status::kOk, code_point, lead.size};
}

bool is_ascii(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080u) return false;
  }
  for (; i < text.size(); ++i)
    if (static_cast<uint8_t>(text[i]) >= 0x80) return false;
  return true;
}

std::string_view utf8_prefix(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t end = limit;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end == 0 ? limit : end);
}

bool utf8_is_valid(std::string_view text) {
  while (!text.empty()) {
    if (text.size() >= 8 && is_ascii(text.substr(0, 8))) {
      text.remove_prefix(8);
      continue;
    }
    const Utf8Step step = utf8_step(text);
    if (step.status != Utf8Status::kOk) return false;
    text.remove_prefix(step.size);
  }
  return true;
}

void utf8_append(uint32_t code_point, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
  } else {
    if (code_point < 0x10000) {
      put(0xE0 | (code_point >> 12));
    } else {
      put(0xF0 | (code_point >> 18));
      put(0x80 | ((code_point >> 12) & 0x3F));
    }
    put(0x80 | ((code_point >> 6) & 0x3F));
  }
  put(0x80 | (code_point & 0x3F));
}

void utf8_append_lossy(std::string_view text, std::string& out) {
  size_t good = 0;  // bytes from the front known to be valid, not yet appended
  while (good < text.size()) {
    const Utf8Step step = utf8_step(text.substr(good));
    if (step.status == Utf8Status::kOk) {
      good += step.size;
      continue;
    }
    out.append(text.substr(0, good)).append(kReplacementCharacter);
    text.remove_prefix(good + step.size);
    good = 0;
  }
  out.append(text);
}

bool is_white_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word_character(uint32_t code_point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

uint32_t byte_alphabet_code_point(uint8_t byte) {
  return kByteAlphabet.code_points[byte];
}

int byte_of_alphabet(uint32_t code_point) {
  return code_point < kByteAlphabet.bytes.size() ? kByteAlphabet.bytes[code_point] : -1;
}

}  // namespace banter::text
