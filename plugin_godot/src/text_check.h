// Whether bytes can be a String of Godot's. Knows nothing of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace banter::godot {

/** Bytes of the code point at the front: 1 to 4, or 0 where there is no valid one. */
inline size_t code_point_size(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = at(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xC2 && first <= 0xDF   ? 2
                      : first >= 0xE0 && first <= 0xEF ? 3
                      : first >= 0xF0 && first <= 0xF4 ? 4
                                                       : 0;
  if (size == 0 || size > text.size()) return 0;
  for (size_t i = 1; i < size; i++) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  // What has a shorter form, surrogates, and what lies beyond the last code point.
  if (first == 0xE0 && at(1) < 0xA0) return 0;
  if (first == 0xED && at(1) > 0x9F) return 0;
  if (first == 0xF0 && at(1) < 0x90) return 0;
  if (first == 0xF4 && at(1) > 0x8F) return 0;
  return size;
}

/** Valid UTF-8 without a zero byte. */
inline bool is_text(std::string_view text) {
  while (!text.empty()) {
    const size_t size = text[0] == '\0' ? 0 : code_point_size(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace banter::godot
