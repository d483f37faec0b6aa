// Substring search whose time is bounded by the length of the text, whatever the pattern.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/jinja/budget.h"

namespace banter::text::jinja {

/** Finds one pattern in texts, forwards or backwards. std::string_view::find takes the product of both lengths in the
 *  worst case, which a template could be made to repeat. `pattern` must outlive the searcher. */
class Searcher {
 public:
  Searcher(Budget& budget, std::string_view pattern, bool backwards = false);
  ~Searcher() { budget_->release(reserved_); }
  Searcher(const Searcher&) = delete;
  Searcher& operator=(const Searcher&) = delete;

  /** First offset >= `from` where the pattern starts, or npos (also when the budget is exhausted). */
  size_t find(std::string_view text, size_t from = 0);
  /** Last offset where the pattern starts such that it ends at or before `end`, or npos. */
  size_t find_last(std::string_view text, size_t end = std::string_view::npos);

 private:
  template <class At>
  size_t scan(size_t length, const At& at);
  char pattern_at(size_t i) const { return backwards_ ? pattern_[pattern_.size() - 1 - i] : pattern_[i]; }

  Budget* budget_;
  std::string_view pattern_;
  bool backwards_;
  size_t reserved_ = 0;
  std::vector<uint32_t> borders_;  // per prefix, the length of its longest proper border; empty for short patterns
};

}  // namespace banter::text::jinja
