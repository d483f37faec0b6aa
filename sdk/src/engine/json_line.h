// JSON into fixed memory: no allocation, no locale.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace banter::engine {

/** Writes one JSON value without spaces or line ends. Bytes beyond the memory are counted, not written. Names and texts
 *  are ours: letters that need no escape. */
class JsonLine {
 public:
  explicit JsonLine(std::span<char> memory) : memory_(memory) {}

  JsonLine& open(char bracket = '{') {
    separate();
    put({&bracket, 1});
    first_ = true;
    return *this;
  }
  JsonLine& close(char bracket = '}') {
    put({&bracket, 1});
    first_ = false;
    return *this;
  }
  JsonLine& key(std::string_view name) {
    text(name);
    put(":");
    first_ = true;
    return *this;
  }
  JsonLine& text(std::string_view value) {
    separate();
    put("\"");
    put(value);
    put("\"");
    return *this;
  }
  JsonLine& number(uint64_t value) {
    separate();
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    put({digits, static_cast<size_t>(end - digits)});
    return *this;
  }
  /** Three digits behind the point; what is no number is 0, which JSON can say. */
  JsonLine& number(double value) {
    separate();
    if (!std::isfinite(value)) value = 0;
    value = std::clamp(value, -1e18, 1e18);
    char digits[64];
    const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, 3).ptr;
    put({digits, static_cast<size_t>(end - digits)});
    return *this;
  }
  template <class T>
  JsonLine& pair(std::string_view name, T value) {
    key(name);
    if constexpr (std::is_floating_point_v<T>) {
      return number(static_cast<double>(value));
    } else {
      return number(static_cast<uint64_t>(value));
    }
  }

  /** Bytes of the whole value; more than the memory when it did not fit. */
  size_t size() const { return size_; }

 private:
  void separate() {
    if (!first_) put(",");
    first_ = false;
  }
  void put(std::string_view bytes) {
    if (size_ < memory_.size()) {
      std::memcpy(memory_.data() + size_, bytes.data(), std::min(bytes.size(), memory_.size() - size_));
    }
    size_ += bytes.size();
  }

  std::span<char> memory_;
  size_t size_ = 0;
  bool first_ = true;
};

}  // namespace banter::engine
