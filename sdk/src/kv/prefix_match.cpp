// The part of the prefix index that looks up: how far a sequence's tokens are cached, and in which pages.
#include <algorithm>
#include <utility>

#include "kv/prefix_index.h"

namespace banter::kv {

void PrefixIndex::walk(std::span<const int32_t> tokens, int32_t limit) const {
  path_.clear();
  partial_ = kNone;
  partial_tokens_ = 0;
  limit_ = std::clamp<int32_t>(limit, 0, static_cast<int32_t>(tokens.size()));
  int32_t parent = kNone;
  size_t at = 0;
  while (at + kUnit <= tokens.size() && static_cast<int32_t>(at) < limit_) {
    const int32_t index = child(parent, tokens.data() + at);
    if (index == kNone) break;
    path_.push_back(index);
    parent = index;
    at += kUnit;
  }
  // Where the tokens part from every child within a unit, some of it may still be shared.
  const std::span<const int32_t> rest = tokens.subspan(at);
  const int32_t first = parent == kNone ? root_children_ : node(parent).first_child;
  int32_t looked = 0;
  for (int32_t i = first; i != kNone && looked < kMostVisits; i = node(i).next_sibling, ++looked) {
    int32_t same = 0;
    while (same < kUnit && static_cast<size_t>(same) < rest.size() &&
           node(i).tokens[static_cast<size_t>(same)] == rest[static_cast<size_t>(same)]) {
      ++same;
    }
    if (same > partial_tokens_) {
      partial_tokens_ = same;
      partial_ = i;
    }
  }
}

/** A node at most `levels` below `index`, or itself, that has a page of the group. */
int32_t PrefixIndex::page_below(int32_t index, int32_t levels, size_t group, bool resident_only,
                                int32_t& visits) const {
  if (++visits > kMostVisits) return kNone;
  if (has_page(index, group, resident_only)) return index;
  if (levels == 0) return kNone;
  for (int32_t i = node(index).first_child; i != kNone; i = node(i).next_sibling) {
    const int32_t found = page_below(i, levels - 1, group, resident_only, visits);
    if (found != kNone || visits > kMostVisits) return found;
  }
  return kNone;
}

/** Where page `place` of a group stands, for a sequence that shares `length` tokens. */
int32_t PrefixIndex::node_of(int32_t length, int32_t place, size_t group, bool resident_only) const {
  const auto known = static_cast<int32_t>(path_.size());
  const int32_t end = (place + 1) * page_tokens_[group];
  // Of a page that `length` cuts, any copy will do that holds what is before the cut.
  int32_t unit = (std::min(length, end) + kUnit - 1) / kUnit;
  for (; unit <= std::min(known, end / kUnit); ++unit) {
    const int32_t index = path_[static_cast<size_t>(unit) - 1];
    if (has_page(index, group, resident_only)) return index;
  }
  if (end / kUnit <= known) return kNone;
  int32_t visits = 0;
  if (length > known * kUnit) return page_below(partial_, end / kUnit - known - 1, group, resident_only, visits);
  return known == 0 ? kNone : page_below(path_.back(), end / kUnit - known, group, resident_only, visits);
}

int32_t PrefixIndex::first_page(int32_t length, size_t group) const {
  const int32_t window = pool_.groups()[group].window;
  return window == 0 ? 0 : std::max(0, length - window + 1) / page_tokens_[group];
}

bool PrefixIndex::is_usable(int32_t length, bool resident_only) const {
  for (size_t g = 0; g < page_tokens_.size(); ++g) {
    const auto whole = static_cast<size_t>(length / page_tokens_[g]);
    const auto first = static_cast<size_t>(first_page(length, g));
    const std::vector<int32_t>& present = present_[g];
    if (whole >= present.size()) return false;
    if (whole > first && present[whole] - present[first] != static_cast<int32_t>(whole - first)) return false;
    if (length % page_tokens_[g] != 0 && node_of(length, static_cast<int32_t>(whole), g, resident_only) == kNone) {
      return false;
    }
  }
  return true;
}

/** The longest prefix whose pages are all there, of what walk() found. */
int32_t PrefixIndex::longest(bool resident_only) const {
  for (size_t g = 0; g < page_tokens_.size(); ++g) {
    const auto step = static_cast<size_t>(page_tokens_[g] / kUnit);
    present_[g].assign(1, 0);
    for (size_t unit = step; unit <= path_.size(); unit += step) {
      present_[g].push_back(present_[g].back() + (has_page(path_[unit - 1], g, resident_only) ? 1 : 0));
    }
  }
  const int32_t most = std::min(limit_, static_cast<int32_t>(path_.size()) * kUnit + partial_tokens_);
  if (most > 0 && is_usable(most, resident_only)) return most;
  for (int32_t length = (most - 1) / kUnit * kUnit; length > 0; length -= kUnit) {
    if (is_usable(length, resident_only)) return length;
  }
  return 0;
}

int32_t PrefixIndex::match(std::span<const int32_t> tokens, int32_t limit) const {
  if (!enabled_) return 0;
  walk(tokens, limit);
  return longest(false);
}

int32_t PrefixIndex::attach(std::span<const int32_t> tokens, int32_t limit, SequenceCache& cache, uint64_t now) {
  cache.clear();
  limit = std::min(limit, cache.max_tokens());
  walk(tokens, limit);
  touch_path(now);
  int32_t length = longest(false);
  if (length > 0 && !is_resident(length)) {
    bring_back(length, now);
    walk(tokens, limit);  // making room may have taken nodes away
    length = longest(true);
  }
  if (length == 0) return 0;
  for (size_t g = 0; g < page_tokens_.size(); ++g) {
    found_[g].clear();
    runs_[g].first = first_page(length, g);
    const int32_t pages = (length + page_tokens_[g] - 1) / page_tokens_[g];
    for (int32_t place = runs_[g].first; place < pages; ++place) {
      found_[g].push_back(page_at(node_of(length, place, g, true), g));
    }
    runs_[g].pages = found_[g];
  }
  cache.adopt(length, runs_);
  cache.set_indexed(length / kUnit * kUnit);
  return length;
}

/** Whether all pages of a usable length are in the pool. */
bool PrefixIndex::is_resident(int32_t length) const {
  for (size_t g = 0; g < page_tokens_.size(); ++g) {
    const int32_t pages = (length + page_tokens_[g] - 1) / page_tokens_[g];
    for (int32_t place = first_page(length, g); place < pages; ++place) {
      if (node_of(length, place, g, true) == kNone) return false;
    }
  }
  return true;
}

/** Brings the swapped pages of a prefix back, as far as there is room; what was used at `now` makes none. */
void PrefixIndex::bring_back(int32_t length, uint64_t now) {
  for (size_t g = 0; g < page_tokens_.size(); ++g) {
    const int32_t pages = (length + page_tokens_[g] - 1) / page_tokens_[g];
    for (int32_t place = first_page(length, g); place < pages; ++place) {
      const int32_t index = node_of(length, place, g, false);
      if (index == kNone) return;
      if (page_at(index, g) >= 0) continue;
      if (pool_.free_pages() == 0 && (oldest_use() >= now || !evict())) return;
      if (page_at(index, g) == kNoPage) return;  // making room took this very copy
      if (!restore(index, g)) return;
    }
  }
}

bool PrefixIndex::restore(int32_t index, size_t group) {
  const PageId page = pool_.allocate();
  if (page == kNoPage) return false;
  PageId& entry = page_at(index, group);
  if (!swap_->restore(swap_slot(entry), page)) {
    pool_.release(page);
    entry = kNoPage;
    --node(index).held;
    return false;
  }
  entry = page;  // the reference that allocate() gave is the index's
  node_of_page_[static_cast<size_t>(page)] = index;
  return true;
}

}  // namespace banter::kv
