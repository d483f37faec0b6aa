#include "backend_cuda/graph_cache.h"

#include <algorithm>
#include <utility>

namespace banter::cuda {
namespace {

constexpr size_t kMostGraphs = 32;
constexpr int32_t kCannot = -1;  // Entry::seen: making one failed
constexpr int32_t kGraphRows[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64};

bool same_grid(const StepShape& a, const StepShape& b) {
  return a.rows == b.rows && a.logit_rows == b.logit_rows && a.tiles == b.tiles && a.splits == b.splits;
}

}  // namespace

int32_t graph_rows(int32_t rows) {
  const auto* const found = std::lower_bound(std::begin(kGraphRows), std::end(kGraphRows), rows);
  return found == std::end(kGraphRows) ? 0 : *found;
}

void GraphCache::clear() {
  for (Entry& entry : entries_) {
    if (entry.graph != nullptr) static_cast<void>(cudaGraphExecDestroy(entry.graph));
  }
  entries_.clear();
}

GraphCache::Entry& GraphCache::entry_of(const Program& program, const StepShape& grid) {
  for (Entry& entry : entries_) {
    if (same_grid(entry.grid, grid) && entry.program == program) return entry;
  }
  if (entries_.size() >= kMostGraphs) {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                         [](const Entry& a, const Entry& b) { return a.last_used < b.last_used; });
    if (oldest->graph != nullptr) static_cast<void>(cudaGraphExecDestroy(oldest->graph));
    entries_.erase(oldest);
  }
  entries_.push_back({.program = program, .grid = grid});
  return entries_.back();
}

bool GraphCache::make(Entry& entry, const Issue& issue) {
  KernelChain chain;
  if (cudaGraphCreate(&chain.graph, 0) == cudaSuccess) {
    if (!issue(chain) || cudaGraphInstantiate(&entry.graph, chain.graph, 0) != cudaSuccess) entry.graph = nullptr;
    static_cast<void>(cudaGraphDestroy(chain.graph));
  }
  if (entry.graph == nullptr) static_cast<void>(cudaGetLastError());
  return entry.graph != nullptr;
}

Result<void> GraphCache::run(const Program& program, const StepShape& grid, const Stream& stream, const Issue& issue) {
  Entry& entry = entry_of(program, grid);
  entry.last_used = ++clock_;
  if (entry.seen == 1 && !make(entry, issue)) entry.seen = kCannot;
  if (entry.seen >= 0) ++entry.seen;
  if (entry.graph != nullptr) {
    if (cudaGraphLaunch(entry.graph, stream.get()) == cudaSuccess) return {};
    // A graph may want memory that a game has taken since. Should it be the card that fails, the kernels will tell.
    static_cast<void>(cudaGetLastError());
    static_cast<void>(cudaGraphExecDestroy(std::exchange(entry.graph, nullptr)));
    entry.seen = kCannot;
  }
  return issue(stream.get());
}

}  // namespace banter::cuda
