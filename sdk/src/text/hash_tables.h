// Two flat hash tables for hot lookups: token ids by text, and merges by pairs of ids. Built once, then read only.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace banter::text {

/** Folds a 64x64-bit product: cheap and mixes every input bit into every output bit. */
inline uint64_t mix_bits(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
#else
  a ^= a >> 32;
  a *= b;
  a ^= a >> 29;
  a *= 0xBF58476D1CE4E5B9u;
  return a ^ (a >> 32);
#endif
}

inline uint64_t hash_bytes(std::string_view text, uint64_t seed) {
  uint64_t hash = seed ^ (text.size() * 0x9E3779B97F4A7C15u);
  const char* data = text.data();
  size_t left = text.size();
  for (; left >= 8; left -= 8, data += 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = mix_bits(hash ^ word, 0xE7037ED1A0B428DBu);
  }
  uint64_t tail = 0;
  for (size_t i = 0; i < left; ++i) tail |= static_cast<uint64_t>(static_cast<uint8_t>(data[i])) << (8 * i);
  return mix_bits(hash ^ tail, 0x8EBC6AF09C88C6E3u);
}

/** Ids by text. The texts belong to the caller, who passes `text_of(id)` to every call. */
class TokenIndex {
 public:
  void reserve(size_t count) {
    slots_.assign(std::bit_ceil(count * 2 + 2), kEmpty);
    // The address makes collisions unpredictable for whoever writes a hostile vocabulary; results do not depend on it.
    seed_ = mix_bits(reinterpret_cast<uintptr_t>(slots_.data()), 0xA0761D6478BD642Fu);
  }
  /** Adds an id (at most as many as reserved); the first id of a text stays. */
  template <class TextOf>
  void insert(int32_t id, TextOf&& text_of) {
    const std::string_view text = text_of(id);
    const uint64_t hash = hash_bytes(text, seed_);
    for (size_t slot = hash & mask();; slot = (slot + 1) & mask()) {
      if (slots_[slot] == kEmpty) {
        slots_[slot] = static_cast<uint64_t>(static_cast<uint32_t>(id)) | (hash & kTagMask);
        return;
      }
      if (((slots_[slot] ^ hash) & kTagMask) == 0 && text_of(id_in(slot)) == text) return;
    }
  }
  template <class TextOf>
  int32_t find(std::string_view text, TextOf&& text_of) const {
    if (slots_.empty()) return -1;
    const uint64_t hash = hash_bytes(text, seed_);
    for (size_t slot = hash & mask(); slots_[slot] != kEmpty; slot = (slot + 1) & mask())
      if (((slots_[slot] ^ hash) & kTagMask) == 0 && text_of(id_in(slot)) == text) return id_in(slot);
    return -1;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // no id is -1
  static constexpr uint64_t kTagMask = 0xFFFFFFFF00000000u;
  size_t mask() const { return slots_.size() - 1; }
  int32_t id_in(size_t slot) const { return static_cast<int32_t>(static_cast<uint32_t>(slots_[slot])); }

  std::vector<uint64_t> slots_;  // id in the low half, high half of the hash above it
  uint64_t seed_ = 0;
};

/** What joining two adjacent symbols gives. `id` < 0: they do not join. Lower ranks join first. */
struct Merge {
  uint32_t rank = UINT32_MAX;
  int32_t id = -1;
};

/** Merges by (left id, right id). */
class MergeTable {
 public:
  void reserve(size_t count) {
    slots_.assign(std::bit_ceil(count + count / 2 + 2), Slot{});
    seed_ = mix_bits(reinterpret_cast<uintptr_t>(slots_.data()), 0xA0761D6478BD642Fu) | 1;
  }
  /** Adds a merge (at most as many as reserved); the first one of a pair stays. */
  void insert(int32_t left, int32_t right, Merge merge) {
    const uint64_t key = key_of(left, right);
    size_t slot = slot_of(key);
    while (slots_[slot].key != kEmpty) {
      if (slots_[slot].key == key) return;
      slot = (slot + 1) & (slots_.size() - 1);
    }
    slots_[slot] = {key, merge};
  }
  /** Ids must not be negative. */
  Merge find(int32_t left, int32_t right) const {
    if (slots_.empty()) return {};
    const uint64_t key = key_of(left, right);
    for (size_t slot = slot_of(key); slots_[slot].key != kEmpty; slot = (slot + 1) & (slots_.size() - 1))
      if (slots_[slot].key == key) return slots_[slot].merge;
    return {};
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return mix_bits(key ^ seed_, 0x9E3779B97F4A7C15u) & (slots_.size() - 1); }

  std::vector<Slot> slots_;
  uint64_t seed_ = 1;
};

}  // namespace banter::text
