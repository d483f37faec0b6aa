#include "ops/kv_layout.h"

#include <algorithm>
#include <cstring>

namespace banter::ops {
namespace {

/** body(offset, bytes) for stretches that are the runs of tokens [first, end): as long as the layout lets them be. */
template <class Body>
void for_each_stretch(const KvTable& table, size_t first, size_t end, Body body) {
  if (first >= end) return;
  const bool tokens_touch = table.token_step == table.run_bytes;
  for (size_t r = 0; r < table.runs; ++r) {
    const size_t start = table.offset + r * table.run_step + first * table.token_step;
    if (tokens_touch) {
      body(start, (end - first) * table.run_bytes);
      continue;
    }
    for (size_t t = 0; t < end - first; ++t) body(start + t * table.token_step, table.run_bytes);
  }
}

/** body(region, start of the region in the page) for every head's K and V of every layer. */
template <class Body>
void for_each_region(const KvGeometry& geometry, const KvLayout& layout, Body body) {
  for (int32_t layer = 0; layer < geometry.layers; ++layer) {
    for (int value = 0; value < 2; ++value) {
      for (int32_t head = 0; head < geometry.kv_heads; ++head) {
        body(layout.regions[static_cast<size_t>(value)], geometry.offset(layer, value, head));
      }
    }
  }
}

/** True when no number has all exponent bits set: neither infinite nor not-a-number. */
template <class Word>
bool all_finite(std::span<const std::byte> bytes, Word exponent) {
  Word words[512];
  for (size_t at = 0; at + sizeof(Word) <= bytes.size();) {
    const size_t n = std::min(sizeof words, bytes.size() - at) / sizeof(Word);
    std::memcpy(words, bytes.data() + at, n * sizeof(Word));
    bool finite = true;
    for (size_t i = 0; i < n; ++i) finite = finite & ((words[i] & exponent) != exponent);
    if (!finite) return false;
    at += n * sizeof(Word);
  }
  return true;
}

bool all_halves_finite(std::span<const std::byte> bytes) {
  return all_finite<uint16_t>(bytes, 0x7C00u);
}

bool values_are_numbers(KvType type, std::span<const std::byte> bytes) {
  switch (type) {
    case KvType::kF16:
      return all_halves_finite(bytes);
    case KvType::kBF16:
      return all_finite<uint16_t>(bytes, 0x7F80u);
    case KvType::kF32:
      return all_finite<uint32_t>(bytes, 0x7F800000u);
    case KvType::kI8:
      return std::find(bytes.begin(), bytes.end(), std::byte{0x80}) == bytes.end();
    case KvType::kI4:
      return true;
  }
  return false;
}

}  // namespace

void clear_unwritten(const KvGeometry& geometry, const KvLayout& layout, int32_t tokens, std::span<std::byte> page) {
  const auto first = static_cast<size_t>(tokens), end = static_cast<size_t>(geometry.page_tokens);
  for_each_region(geometry, layout, [&](const KvLayout::Region& region, size_t start) {
    const auto clear = [&](size_t offset, size_t bytes) { std::memset(page.data() + start + offset, 0, bytes); };
    for_each_stretch(region.values, first, end, clear);
    for_each_stretch(region.scales, first, end, clear);
  });
}

bool holds_numbers(const KvGeometry& geometry, const KvLayout& layout, std::span<const std::byte> page) {
  bool good = true;
  const auto tokens = static_cast<size_t>(geometry.page_tokens);
  for_each_region(geometry, layout, [&](const KvLayout::Region& region, size_t start) {
    for_each_stretch(region.values, 0, tokens, [&](size_t offset, size_t bytes) {
      good = good && values_are_numbers(geometry.type, page.subspan(start + offset, bytes));
    });
    for_each_stretch(region.scales, 0, tokens, [&](size_t offset, size_t bytes) {
      good = good && all_halves_finite(page.subspan(start + offset, bytes));
    });
  });
  return good;
}

}  // namespace banter::ops
