#include "text_format.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>

namespace banter::tools {

size_t code_point_bytes(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  size_t shown = 0;
  for (size_t at = 0; at < text.size(); ++shown) {
    if (shown == limit) return out + "…";
    const size_t length = code_point_bytes(text, at);
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool control = byte < 0x20 || byte == 0x7F || (byte == 0xC2 && length == 2 && text[at + 1] < '\xA0');
    if (length > 0 && !control) {
      out += text.substr(at, length);
    } else if (byte == '\n') {
      out += "\\n";
    } else {
      for (size_t i = 0; i < std::max<size_t>(length, 1); ++i) {
        char escape[8];
        std::snprintf(escape, sizeof(escape), "\\x%02x", static_cast<unsigned char>(text[at + i]));
        out += escape;
      }
    }
    at += std::max<size_t>(length, 1);
  }
  return out;
}

std::string bytes_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string count_text(uint64_t count) {
  auto value = static_cast<double>(count);
  const char* unit = "";
  if (value >= 1e9) {
    value /= 1e9;
    unit = " G";
  } else if (value >= 1e6) {
    value /= 1e6;
    unit = " M";
  } else {
    return std::to_string(count);
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f%s", value, unit);
  return text;
}

std::optional<uint64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  std::string unit;
  for (const char* at = end; at != text.data() + text.size(); ++at) {
    if (*at != ' ') unit += static_cast<char>(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
  }
  if (unit.ends_with("IB")) {
    unit.resize(unit.size() - 2);
  } else if (unit.ends_with("B")) {
    unit.pop_back();
  }
  constexpr std::string_view kUnits = "KMGT";
  if (unit.size() > 1 || (unit.size() == 1 && kUnits.find(unit[0]) == std::string_view::npos)) return std::nullopt;
  if (unit.size() == 1) {
    for (size_t i = 0; i <= kUnits.find(unit[0]); ++i) number *= 1024;
  }
  if (!(number < 1e18)) return std::nullopt;
  return static_cast<uint64_t>(number);
}

}  // namespace banter::tools
