// A 64-bit hash of bytes, for telling things apart and noticing accidents. Not against people who forge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace banter {

/** Hashes what is added, in order. Eight bytes at a time: each step is a bijection of the state, so that a change of one
 *  word always changes the result. The same on all little-endian machines. */
class Hash64 {
 public:
  void add(uint64_t word) {
    state_ = (state_ ^ word) * kMultiplier;
    state_ ^= state_ >> 32;
  }
  void add(std::span<const std::byte> bytes) {
    size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + at, 8);
      add(word);
    }
    uint64_t rest = 0;
    if (at < bytes.size()) std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
    add(rest);
    add(static_cast<uint64_t>(bytes.size()));
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }

  uint64_t value() const { return state_; }

 private:
  static constexpr uint64_t kMultiplier = 0x9FB21C651E98DF25;  // odd, its bits well mixed
  uint64_t state_ = 0x243F6A8885A308D3;                        // the first digits of pi
};

}  // namespace banter
