// Text on its way to the host: speech and thought, in the order they came.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace banter::dialogue {

/** A queue of text in runs of one kind. Memory is kept. */
class Outgoing {
 public:
  void add(bool thought, std::string_view text) {
    if (text.empty()) return;
    if (runs_.size() == first_ || runs_.back().thought != thought) runs_.push_back({thought, 0});
    runs_.back().bytes += text.size();
    bytes_ += text;
  }
  bool empty() const { return size() == 0; }
  /** Bytes that wait. */
  size_t size() const { return bytes_.size() - sent_; }
  void reserve(size_t bytes) { bytes_.reserve(bytes), runs_.reserve(4); }

  /** The oldest run, and its kind; "" when empty. */
  std::string_view front() const {
    return empty() ? std::string_view() : std::string_view(bytes_).substr(sent_, runs_[first_].bytes);
  }
  bool front_is_thought() const { return !empty() && runs_[first_].thought; }
  /** Takes the first `bytes` bytes of front() out. */
  void drop(size_t bytes) {
    bytes = std::min(bytes, front().size());
    sent_ += bytes;
    if (bytes > 0 && (runs_[first_].bytes -= bytes) == 0) ++first_;
  }
  /** Forgets everything. */
  void clear() {
    bytes_.clear();
    runs_.clear();
    sent_ = first_ = 0;
  }
  /** Gives room back after drop(). */
  void compact() {
    bytes_.erase(0, sent_);
    runs_.erase(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(first_));
    sent_ = first_ = 0;
  }

 private:
  struct Run {
    bool thought;
    size_t bytes;
  };
  std::string bytes_;
  std::vector<Run> runs_;
  size_t sent_ = 0, first_ = 0;
};

}  // namespace banter::dialogue
