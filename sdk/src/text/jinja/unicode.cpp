// UTF-8 and the parts of Python's str that depend on Unicode properties (from utf8proc).
#include <utf8proc.h>

#include "text/jinja/text.h"

namespace banter::text::jinja {

namespace {

constexpr char32_t kReplacement = 0xFFFD;

bool is_continuation(unsigned char byte) {
  return (byte & 0xC0) == 0x80;
}

/** Length of the well-formed sequence at `offset`, or 0; `*bad` is then the length of the ill-formed prefix. */
size_t well_formed(std::string_view bytes, size_t offset, size_t* bad) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[offset + i]); };
  const unsigned char lead = at(0);
  *bad = 1;
  if (lead < 0x80) return 1;
  size_t need = 0;
  unsigned char low = 0x80, high = 0xBF;  // bounds of the second byte (Unicode table 3-7)
  if (lead >= 0xC2 && lead <= 0xDF) {
    need = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    need = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    need = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  for (size_t i = 1; i < need; ++i) {
    if (offset + i >= bytes.size()) return 0;
    const unsigned char byte = at(i);
    if (i == 1 ? (byte < low || byte > high) : !is_continuation(byte)) return 0;
    *bad = i + 1;
  }
  return need;
}

bool is_cased(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      return false;
  }
}

bool is_case_ignorable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024;
  }
}

/** A capital sigma ends a word: a cased letter before it and none after it, marks and the like not counted. */
bool is_final_sigma(std::string_view bytes, size_t offset, size_t end) {
  bool before = false;
  for (size_t i = offset; i > 0;) {
    i = previous_offset(bytes, i);
    size_t at = i;
    const char32_t c = next_code_point(bytes, &at);
    if (is_case_ignorable(c)) continue;
    before = is_cased(c);
    break;
  }
  if (!before) return false;
  for (size_t i = end; i < bytes.size();) {
    const char32_t c = next_code_point(bytes, &i);
    if (is_case_ignorable(c)) continue;
    return !is_cased(c);
  }
  return true;
}

/** The full case folding of `c`, where it has several code points; 0 otherwise. */
size_t long_folding(char32_t c, utf8proc_int32_t folded[4]) {
  if (c < 0x80 || c == 0x130 || c == 0x1E9E) return 0;  // these two are capitals already
  int boundary = 0;
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 4, UTF8PROC_CASEFOLD, &boundary);
  return n > 1 && n <= 4 ? static_cast<size_t>(n) : 0;
}

}  // namespace

char32_t next_code_point(std::string_view bytes, size_t* offset) {
  const auto at = [&](size_t i) -> char32_t { return static_cast<unsigned char>(bytes[i]); };
  const size_t i = *offset;
  const char32_t lead = at(i);
  const size_t need = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (i + need > bytes.size()) {  // not reached with valid UTF-8
    *offset = bytes.size();
    return kReplacement;
  }
  *offset = i + need;
  switch (need) {
    case 1:
      return lead;
    case 2:
      return ((lead & 0x1F) << 6) | (at(i + 1) & 0x3F);
    case 3:
      return ((lead & 0x0F) << 12) | ((at(i + 1) & 0x3F) << 6) | (at(i + 2) & 0x3F);
    default:
      return ((lead & 0x07) << 18) | ((at(i + 1) & 0x3F) << 12) | ((at(i + 2) & 0x3F) << 6) | (at(i + 3) & 0x3F);
  }
}

size_t previous_offset(std::string_view bytes, size_t offset) {
  do {
    --offset;
  } while (offset > 0 && is_continuation(static_cast<unsigned char>(bytes[offset])));
  return offset;
}

void append_utf8(std::string* out, char32_t c) {
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) c = kReplacement;
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (c >> 6)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (c >> 12)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | (c >> 18)));
    out->push_back(static_cast<char>(0x80 | ((c >> 12) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

size_t count_code_points(std::string_view bytes) {
  size_t count = 0;
  for (const char byte : bytes) count += !is_continuation(static_cast<unsigned char>(byte));
  return count;
}

std::string sanitize_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    size_t bad = 1;
    const size_t good = well_formed(bytes, i, &bad);
    if (good > 0) {
      out.append(bytes.substr(i, good));
      i += good;
    } else {
      append_utf8(&out, kReplacement);
      i += bad;
    }
  }
  return out;
}

bool is_space(char32_t c) {
  if (c <= 0x20) return c == 0x20 || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  if (c < 0x1680) return c == 0x85 || c == 0xA0;
  return c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

void append_upper(TextBuilder& out, const Text& text, size_t begin, size_t end) {
  for (size_t i = begin; i < end && out.budget().ok();) {
    const bool trusted = text.trusted_at(i);
    const char32_t c = next_code_point(text.bytes(), &i);
    utf8proc_int32_t folded[4];
    // The full upper case of the letters that grow is the upper case of their full case folding.
    const size_t n = long_folding(c, folded);
    if (n == 0) out.append_code_point(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)), trusted);
    for (size_t k = 0; k < n; ++k) out.append_code_point(utf8proc_toupper(folded[k]), trusted);
  }
}

void append_lower(TextBuilder& out, const Text& text, size_t begin, size_t end) {
  for (size_t i = begin; i < end && out.budget().ok();) {
    const size_t start = i;
    const bool trusted = text.trusted_at(i);
    const char32_t c = next_code_point(text.bytes(), &i);
    if (c == 0x130) {
      out.append("i\xCC\x87", trusted);
    } else if (c == 0x3A3) {
      out.append_code_point(is_final_sigma(text.bytes(), start, i) ? 0x3C2 : 0x3C3, trusted);
    } else {
      out.append_code_point(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)), trusted);
    }
  }
}

void append_title_char(TextBuilder& out, const Text& text, size_t* offset) {
  const bool trusted = text.trusted_at(*offset);
  const char32_t c = next_code_point(text.bytes(), offset);
  auto title = static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
  if (c == 0xDF) title = c;  // sharp s has a capital letter of its own, which Python does not use
  utf8proc_int32_t folded[4];
  const size_t n = title == c && is_cased(c) ? long_folding(c, folded) : 0;
  const bool grows = n > 0 && utf8proc_category(static_cast<utf8proc_int32_t>(c)) != UTF8PROC_CATEGORY_LT;
  if (!grows) {
    out.append_code_point(title, trusted);
    return;
  }
  for (size_t k = 0; k < n; ++k) {
    const bool capital = k == 0 || (k == 1 && c == 0x149);  // U+0149 starts with an apostrophe
    out.append_code_point(static_cast<char32_t>(capital ? utf8proc_totitle(folded[k]) : folded[k]), trusted);
  }
}

}  // namespace banter::text::jinja
