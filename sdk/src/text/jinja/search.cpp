#include "text/jinja/search.h"

#include <algorithm>

namespace banter::text::jinja {

namespace {

constexpr size_t kShort = 8;         // so long a pattern costs the plain search at most 8 comparisons a byte
constexpr size_t kBytesPerUnit = 8;  // of text searched

}  // namespace

Searcher::Searcher(Budget& budget, std::string_view pattern, bool backwards)
    : budget_(&budget), pattern_(pattern), backwards_(backwards) {
  if (pattern.size() <= kShort) return;
  const size_t bytes = pattern.size() * sizeof(uint32_t);
  if (!budget.fits(bytes) || !budget.charge(pattern.size() / kBytesPerUnit)) return;
  budget.reserve(bytes);
  reserved_ = bytes;
  borders_.assign(pattern.size(), 0);
  for (size_t i = 1, matched = 0; i < pattern.size(); ++i) {
    while (matched > 0 && pattern_at(i) != pattern_at(matched)) matched = borders_[matched - 1];
    if (pattern_at(i) == pattern_at(matched)) ++matched;
    borders_[i] = static_cast<uint32_t>(matched);
  }
}

/** Knuth, Morris and Pratt's search: the number of characters read when the pattern is complete, or npos. */
template <class At>
size_t Searcher::scan(size_t length, const At& at) {
  for (size_t i = 0, matched = 0; i < length; ++i) {
    while (matched > 0 && at(i) != pattern_at(matched)) matched = borders_[matched - 1];
    if (at(i) == pattern_at(matched)) ++matched;
    if (matched == pattern_.size()) return i + 1;
  }
  return std::string_view::npos;
}

size_t Searcher::find(std::string_view text, size_t from) {
  constexpr size_t kNone = std::string_view::npos;
  if (from > text.size() || !budget_->ok()) return kNone;
  if (text.size() - from < pattern_.size()) return kNone;
  size_t found = kNone;
  if (pattern_.size() <= kShort) {
    found = text.find(pattern_, from);
  } else {
    const size_t end = scan(text.size() - from, [&](size_t i) { return text[from + i]; });
    if (end != kNone) found = from + end - pattern_.size();
  }
  const size_t read = (found == kNone ? text.size() : found + pattern_.size()) - from;
  return budget_->charge(1 + read / kBytesPerUnit) ? found : kNone;
}

size_t Searcher::find_last(std::string_view text, size_t end) {
  constexpr size_t kNone = std::string_view::npos;
  end = std::min(end, text.size());
  if (end < pattern_.size() || !budget_->ok()) return kNone;
  size_t found = kNone;
  if (pattern_.size() <= kShort) {
    found = text.rfind(pattern_, end - pattern_.size());
  } else {
    const size_t read = scan(end, [&](size_t i) { return text[end - 1 - i]; });
    if (read != kNone) found = end - read;
  }
  const size_t read = end - (found == kNone ? 0 : found);
  return budget_->charge(1 + read / kBytesPerUnit) ? found : kNone;
}

}  // namespace banter::text::jinja
