// Text that knows which of its bytes may spell control tokens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace banter::text {

/** Trust of a text's bytes, as runs in order. Whatever lies behind the last run is untrusted. */
class TrustMap {
 public:
  /** The next `size` bytes are (un)trusted. */
  void append(size_t size, bool trusted) {
    if (size == 0) return;
    if (!runs_.empty() && runs_.back().trusted == trusted) {
      runs_.back().end += size;
    } else {
      runs_.push_back({this->size() + size, trusted});
    }
  }
  size_t size() const { return runs_.empty() ? 0 : runs_.back().end; }
  void clear() { runs_.clear(); }

  /** Whether every byte of [begin, end) is trusted. Adjacent runs differ, so one run must hold them all. */
  bool trusted(size_t begin, size_t end) const {
    const auto run = at(begin);
    return run != runs_.end() && run->trusted && end <= run->end;
  }
  /** End of the run that holds `position`; for positions behind the last run, `limit`. */
  size_t run_end(size_t position, size_t limit) const {
    const auto run = at(position);
    return run == runs_.end() ? limit : std::min(run->end, limit);
  }

 private:
  struct Run {
    size_t end;
    bool trusted;
  };
  std::vector<Run>::const_iterator at(size_t position) const {
    return std::upper_bound(runs_.begin(), runs_.end(), position, [](size_t p, const Run& run) { return p < run.end; });
  }
  std::vector<Run> runs_;
};

struct TrustedText {
  std::string text;
  TrustMap trust;

  void append(std::string_view piece, bool trusted) {
    text.append(piece);
    trust.append(piece.size(), trusted);
  }
  void clear() {
    text.clear();
    trust.clear();
  }
};

}  // namespace banter::text
