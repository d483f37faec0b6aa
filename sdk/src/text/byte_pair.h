// Byte-pair encoding: joining adjacent symbols, lowest rank first, leftmost first among equals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/hash_tables.h"

namespace banter::text {

/** A stretch of a piece that is one token so far, or a character without one (id < 0, which never joins). */
struct Symbol {
  int32_t id = -1;
  uint32_t begin = 0, size = 0;  // bytes in the piece
};

/** Memory that merging reuses. One per call. */
struct MergeScratch {
  struct Link {
    int32_t previous, next;
  };
  struct Candidate {
    uint32_t rank;
    int32_t left, right;
    uint32_t size;  // of both symbols when this was found: another sum means it is outdated
    int32_t id;
  };
  std::vector<Link> links;
  std::vector<Candidate> heap;
};

/** Pieces up to this many symbols are merged by scanning, which is faster than a heap for them. */
inline constexpr size_t kScanLimit = 32;

/** Few symbols: find the best pair by scanning, join it, look up its two new neighbours; O(n^2) with a tiny constant. */
template <class Join>
void merge_by_scanning(std::vector<Symbol>& symbols, Join&& join) {
  Merge merges[kScanLimit];
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = join(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = count;
    uint32_t best_rank = UINT32_MAX;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (merges[i].id >= 0 && (best == count || merges[i].rank < best_rank)) {
        best = i;
        best_rank = merges[i].rank;
      }
    }
    if (best == count) break;
    symbols[best].id = merges[best].id;
    symbols[best].size += symbols[best + 1].size;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    --count;
    if (best + 1 < count) merges[best] = join(symbols[best], symbols[best + 1]);
    if (best > 0) merges[best - 1] = join(symbols[best - 1], symbols[best]);
  }
  symbols.resize(count);
}

/** Any number of symbols: a heap of candidate pairs over a linked list; O(n log n). */
template <class Join>
void merge_by_heap(std::vector<Symbol>& symbols, MergeScratch& scratch, Join&& join) {
  using Candidate = MergeScratch::Candidate;
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  auto& links = scratch.links;
  auto& heap = scratch.heap;
  const auto count = static_cast<int32_t>(symbols.size());
  const auto symbol = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  const auto link = [&](int32_t i) -> MergeScratch::Link& { return links[static_cast<size_t>(i)]; };
  const auto candidate = [&](int32_t left, int32_t right) {
    const Merge merge = join(symbol(left), symbol(right));
    return Candidate{merge.rank, left, right, symbol(left).size + symbol(right).size, merge.id};
  };
  links.resize(symbols.size());
  heap.clear();
  for (int32_t i = 0; i < count; ++i) {
    link(i) = {i - 1, i + 1 < count ? i + 1 : -1};
    if (i == 0) continue;
    const Candidate pair = candidate(i - 1, i);
    if (pair.id >= 0) heap.push_back(pair);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  const auto push = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const Candidate pair = candidate(left, right);
    if (pair.id < 0) return;
    heap.push_back(pair);
    std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbol(best.left);
    Symbol& right = symbol(best.right);
    // A symbol that was absorbed has size 0; one that grew changes the sum.
    if (left.size == 0 || right.size == 0 || left.size + right.size != best.size) continue;
    left.id = best.id;
    left.size = best.size;
    right.size = 0;
    const int32_t next = link(best.right).next;
    link(best.left).next = next;
    if (next >= 0) link(next).previous = best.left;
    push(link(best.left).previous, best.left);
    push(best.left, next);
  }
  std::erase_if(symbols, [](const Symbol& s) { return s.size == 0; });
}

/** Joins `symbols` (none of size 0) in place until no pair joins any more.
 *  @param join  Merge(const Symbol& left, const Symbol& right) */
template <class Join>
void merge_symbols(std::vector<Symbol>& symbols, MergeScratch& scratch, Join&& join) {
  if (symbols.size() <= kScanLimit) {
    merge_by_scanning(symbols, join);
  } else {
    merge_by_heap(symbols, scratch, join);
  }
}

}  // namespace banter::text
