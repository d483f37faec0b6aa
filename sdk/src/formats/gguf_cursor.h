// Reads the header of an untrusted GGUF file value by value; every fault becomes a sentence that says where.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"

namespace banter::formats {

/** A little-endian number at any address. */
template <class T>
T load_le(const std::byte* bytes) {
  std::byte native[sizeof(T)];
  std::memcpy(native, bytes, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) std::reverse(native, native + sizeof(T));
  T value;
  std::memcpy(&value, native, sizeof(T));
  return value;
}

/** A position in a file, with a window of bytes around it. Uses read_at only: a host's callbacks may be slow, so in large
 *  pieces, and a mapped file that shrinks must not take the process down. Borrows the source. */
class GgufCursor {
 public:
  /** What is being read, for messages. */
  enum class Place { kPreamble, kKey, kValue, kTensor };

  static constexpr size_t kWindowBytes = 256u << 10;
  static constexpr uint64_t kMaxHeaderBytes = 1u << 30;

  explicit GgufCursor(ByteSource& source) : source_(source), size_(source.size()) {}

  uint64_t size() const { return size_; }
  uint64_t position() const { return position_; }
  uint64_t remaining() const { return size_ - position_; }
  void enter(Place place, uint64_t index) {
    place_ = place;
    index_ = index;
  }
  void enter_value(const std::string& key) {
    place_ = Place::kValue;
    key_ = key;
  }

  /** Steps over `bytes` bytes and returns where they are; valid until the next call.
   *  Errors: FILE_TRUNCATED, CORRUPT (a header of more than kMaxHeaderBytes), and those of the source. */
  Result<const std::byte*> take(size_t bytes);

  template <class T>
  Result<T> number() {
    auto at = take(sizeof(T));
    if (!at) return at.error();
    return load_le<T>(*at);
  }

  /** A length-prefixed string of at most `limit` bytes. */
  Result<void> string(std::string& out, uint64_t limit);

  // Errors. Each names the file, and what to do.

  std::string file() const { return "'" + source_.name() + "'"; }
  /** "the value of metadata key 'x'": the subject of a message. */
  std::string where() const;
  Error corrupt(const std::string& what) const;
  /** `what` needs the file to have at least `end` bytes. */
  Error truncated(const std::string& what, uint64_t end) const;

 private:
  ByteSource& source_;
  uint64_t size_;
  uint64_t position_ = 0;
  std::vector<std::byte> window_;
  uint64_t window_start_ = 0;
  Place place_ = Place::kPreamble;
  uint64_t index_ = 0;
  std::string key_;
};

/** `text` in quotes for a message: control characters escaped, cut after 80 bytes. Names from files are hostile. */
std::string quote_for_message(std::string_view text);

}  // namespace banter::formats
