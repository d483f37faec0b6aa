// The page pool: geometry, the slab, reference counts.
#include "kv/page_pool.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

namespace banter::kv {

namespace {

constexpr size_t kSlabs = 32, kMostSlabs = 4096;
constexpr int32_t kTokenStep = 16;  // page_tokens is a multiple of it
constexpr size_t kStrideAlignment = 64;
// The conversation whose memory geometry is chosen for: padding matters when they are long.
constexpr double kLongConversation = 4096;
// Beyond these no model is served; they keep every product below in 64 bits.
constexpr int32_t kMaxLayers = 1 << 16, kMaxHeads = 1 << 16, kMaxHeadDim = 1 << 16;

size_t bytes_per_token(const GroupSpec& group) {
  return ops::KvGeometry{group.type, group.layers, group.kv_heads, group.head_dim, kTokenStep}.bytes_per_token();
}

double held_tokens(const GroupSpec& group) {
  if (group.window == 0) return kLongConversation;
  return std::min(kLongConversation, static_cast<double>(group.window) + group.restorable);
}

size_t round_up(size_t value, size_t step) {
  return (value + step - 1) / step * step;
}

// Geometry when the pages of group `leader` hold `leader_tokens` tokens, and the bytes of slab that a long conversation
// takes then, on average half of each group's last page unused; false when some group's pages would not hold 16 tokens.
bool fit(std::span<const GroupSpec> groups, size_t leader, int32_t leader_tokens, std::vector<ops::KvGeometry>& out,
         double& bytes) {
  const size_t stride = bytes_per_token(groups[leader]) * static_cast<size_t>(leader_tokens);
  constexpr size_t kMostTokens = std::numeric_limits<int32_t>::max() / 2 / kTokenStep * kTokenStep;
  bytes = 0;
  out.clear();
  for (const GroupSpec& group : groups) {
    const size_t tokens = std::min(stride / bytes_per_token(group) / kTokenStep * kTokenStep, kMostTokens);
    if (tokens == 0) return false;
    out.push_back({group.type, group.layers, group.kv_heads, group.head_dim, static_cast<int32_t>(tokens)});
    bytes += static_cast<double>(stride) * (held_tokens(group) / static_cast<double>(tokens) + 0.5);
  }
  return true;
}

bool is_companion(std::span<const GroupSpec> groups, const GroupSpec& of) {
  if (of.companion < 0 || static_cast<size_t>(of.companion) >= groups.size()) return false;
  const GroupSpec& group = groups[static_cast<size_t>(of.companion)];
  return ops::kv_is_quantised(of.type) && group.type == ops::KvType::kF16 && group.layers == of.layers &&
         group.kv_heads == of.kv_heads && group.head_dim == of.head_dim &&
         (group.window == 0 || group.window >= ops::kKvRecentWindow);
}

Result<void> check(std::span<const GroupSpec> groups, const ops::Backend& backend) {
  if (groups.empty() || groups.size() > ops::kMaxKvGroups) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT, "a KV pool serves 1 to " + std::to_string(ops::kMaxKvGroups) +
                                                    " groups of layers, not " + std::to_string(groups.size())};
  }
  for (const GroupSpec& group : groups) {
    const bool sane = group.layers >= 1 && group.layers <= kMaxLayers && group.kv_heads >= 1 &&
                      group.kv_heads <= kMaxHeads && group.head_dim >= 1 && group.head_dim <= kMaxHeadDim &&
                      group.window >= 0 && group.restorable >= 0;
    if (!sane || bytes_per_token(group) > (size_t{1} << 32)) {
      return Error{BANTER_ERROR_INVALID_ARGUMENT, "a KV group has impossible layer, head or window counts"};
    }
    if (!backend.supports(group.type) || !ops::kv_fits(group.type, group.head_dim)) {
      return Error{BANTER_ERROR_UNSUPPORTED, "the " + backend.name() + " backend cannot keep heads of " +
                                                 std::to_string(group.head_dim) + " dimensions as " +
                                                 ops::kv_type_name(group.type) + "; choose f16"};
    }
    if (group.companion != -1 && !is_companion(groups, group)) {
      return Error{BANTER_ERROR_INVALID_ARGUMENT, "a KV group's companion does not hold the same layers as F16"};
    }
  }
  return {};
}

}  // namespace

std::vector<ops::KvGeometry> plan_geometry(std::span<const GroupSpec> groups) {
  // The widest group leads by preference: others' pages then hold more tokens, never fewer than 16. 32 tokens first: long
  // enough runs for attention kernels, on average 16 tokens lost at a sequence's end. Another leader or size only where
  // that saves a long conversation real memory.
  std::vector<size_t> leaders(groups.size());
  std::iota(leaders.begin(), leaders.end(), size_t{0});
  std::stable_sort(leaders.begin(), leaders.end(),
                   [&](size_t a, size_t b) { return bytes_per_token(groups[a]) > bytes_per_token(groups[b]); });
  constexpr int32_t kCandidates[] = {32, 16, 48, 64};
  constexpr double kWorthChanging = 0.02;
  double needed = 0;
  for (const GroupSpec& group : groups) needed += held_tokens(group) * static_cast<double>(bytes_per_token(group));
  std::vector<ops::KvGeometry> best, candidate;
  double best_bytes = 0, bytes = 0;
  for (const size_t leader : leaders) {
    for (const int32_t tokens : kCandidates) {
      if (!fit(groups, leader, tokens, candidate, bytes)) continue;
      if (best.empty() || bytes < best_bytes - kWorthChanging * needed) {
        best = candidate;
        best_bytes = bytes;
      }
    }
  }
  return best;
}

size_t page_stride(std::span<const ops::KvGeometry> geometry) {
  size_t stride = 0;
  for (const ops::KvGeometry& g : geometry) stride = std::max(stride, round_up(g.page_bytes(), kStrideAlignment));
  return stride;
}

int64_t pages_of_sequence(const GroupSpec& group, int32_t page_tokens, int32_t tokens, int32_t chunk) {
  const int64_t needed = (int64_t{tokens} + page_tokens - 1) / page_tokens;
  if (group.window == 0) return needed;
  // Behind the first new position: window − 1 positions to attend to and the restorable ones; in front: a chunk.
  // Neither end need stand at a page's border, hence one page more.
  const int64_t span = int64_t{group.window} - 1 + group.restorable + std::max(chunk, 1);
  return std::min(needed, (span + page_tokens - 1) / page_tokens + 1);
}

Result<std::unique_ptr<PagePool>> PagePool::create(ops::Backend& backend, std::vector<GroupSpec> groups,
                                                   size_t budget_bytes) {
  if (Result<void> ok = check(groups, backend); !ok) return ok.error();
  const std::vector<ops::KvGeometry> geometry = plan_geometry(groups);
  const size_t stride = kv::page_stride(geometry);
  const size_t count = std::min<size_t>(budget_bytes / stride, std::numeric_limits<int32_t>::max());
  if (count < groups.size()) {
    return Error{BANTER_ERROR_BUDGET_EXCEEDED,
                 "the KV budget of " + std::to_string(budget_bytes >> 10) + " KiB is below one page per group (" +
                     std::to_string((stride * groups.size()) >> 10) + " KiB); give the conversations more memory"};
  }
  std::unique_ptr<PagePool> pool(new PagePool());  // the constructor is private
  pool->backend_ = &backend;
  // Slabs of about a thirty-second of the pool: the grain in which it grows and shrinks.
  while ((size_t{2} << pool->slab_shift_) * kSlabs <= count) ++pool->slab_shift_;
  pool->slabs_.reserve(kMostSlabs);
  for (size_t g = 0; g < geometry.size(); ++g) {
    ops::KvPages view;
    view.page_stride = stride;
    view.geometry = geometry[g];
    view.group = static_cast<int32_t>(g);
    view.slabs = pool->slabs_.data();
    view.slab_shift = pool->slab_shift_;
    pool->views_.push_back(view);
  }
  pool->groups_ = std::move(groups);
  if (Result<void> added = pool->add_slabs(pool->pages_in(count * stride)); !added) return added.error();
  return pool;
}

PagePool::~PagePool() {
  for (std::byte* slab : slabs_) backend_->deallocate(slab);
}

int32_t PagePool::pages_in(size_t bytes) const {
  const size_t slab_bytes = page_stride() << slab_shift_;
  const size_t slabs =
      std::clamp<size_t>(bytes / slab_bytes, 1, std::min(kMostSlabs, size_t{INT32_MAX} >> slab_shift_));
  return static_cast<int32_t>(slabs << slab_shift_);
}

Result<void> PagePool::add_slabs(int32_t pages) {
  const auto before = static_cast<size_t>(total_pages());
  free_.reserve(static_cast<size_t>(pages));
  references_.reserve(static_cast<size_t>(pages));
  Result<void> outcome;
  while (total_pages() < pages) {
    Result<void*> slab = backend_->allocate(page_stride() << slab_shift_);
    if (!slab) {
      outcome = slab.error();
      break;
    }
    slabs_.push_back(static_cast<std::byte*>(*slab));
    references_.resize(slabs_.size() << slab_shift_, 0);
  }
  // Lowest ids are handed out first, so a short game session touches little of the memory. No memory is taken here.
  const auto added = static_cast<std::ptrdiff_t>(references_.size() - before);
  free_.resize(free_.size() + static_cast<size_t>(added));
  std::move_backward(free_.begin(), free_.end() - added, free_.end());
  for (std::ptrdiff_t i = 0; i < added; ++i) {
    free_[static_cast<size_t>(i)] = static_cast<PageId>(references_.size()) - 1 - static_cast<PageId>(i);
  }
  return outcome;
}

void PagePool::drop_slabs(int32_t pages) {
  std::erase_if(free_, [&](PageId page) { return page >= pages; });
  references_.resize(static_cast<size_t>(pages));
  while (slabs_.size() << slab_shift_ > static_cast<size_t>(pages)) {
    backend_->deallocate(slabs_.back());
    slabs_.pop_back();
  }
}

Result<void> PagePool::resize(int32_t pages, std::vector<PageId>& moved) {
  moved.assign(references_.size(), kNoPage);
  if (pages >= total_pages()) return add_slabs(pages);
  if (total_pages() - free_pages() > pages) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT, "more pages are held than the smaller pool has"};
  }
  std::erase_if(free_, [&](PageId page) { return page >= pages; });
  for (PageId page = pages; page < total_pages(); ++page) {
    int32_t& references = references_[static_cast<size_t>(page)];
    if (references == 0) continue;
    const PageId to = free_.back();
    if (Result<void> copied = copy_page(page, to); !copied) {
      for (PageId unused = pages; unused < total_pages(); ++unused) {
        if (references_[static_cast<size_t>(unused)] == 0) free_.push_back(unused);
      }
      return copied;
    }
    free_.pop_back();
    references_[static_cast<size_t>(to)] = std::exchange(references, 0);
    moved[static_cast<size_t>(page)] = to;
  }
  drop_slabs(pages);
  return {};
}

PageId PagePool::allocate() {
  if (free_.empty()) return kNoPage;
  const PageId page = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(page)] = 1;
  return page;
}

void PagePool::retain(PageId page) {
  assert(page >= 0 && page < total_pages() && references_[static_cast<size_t>(page)] > 0 && "retain of a free page");
  ++references_[static_cast<size_t>(page)];
}

void PagePool::release(PageId page) {
  if (page == kNoPage) return;
  assert(page >= 0 && page < total_pages() && references_[static_cast<size_t>(page)] > 0 && "release of a free page");
  if (references_[static_cast<size_t>(page)] == 0) return;
  if (--references_[static_cast<size_t>(page)] == 0) free_.push_back(page);
}

Result<void> PagePool::copy_page(PageId from, PageId to) {
  return backend_->copy(address(to), address(from), page_stride());
}

Result<void> PagePool::read_page(PageId page, std::byte* host) const {
  return backend_->copy_to_host(host, address(page), page_stride());
}

Result<void> PagePool::write_page(PageId page, const std::byte* host) {
  return backend_->copy_from_host(address(page), host, page_stride());
}

int32_t PagePool::pages_for(int32_t tokens, int32_t chunk) const {
  int64_t pages = 0;
  for (size_t g = 0; g < groups_.size(); ++g)
    pages += pages_of_sequence(groups_[g], views_[g].geometry.page_tokens, tokens, chunk);
  return static_cast<int32_t>(std::min<int64_t>(pages, std::numeric_limits<int32_t>::max()));
}

}  // namespace banter::kv
