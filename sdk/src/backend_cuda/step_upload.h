// Sends what changes from step to step to the device, in one copy, to addresses that stay.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend_cuda/memory.h"
#include "backend_cuda/program.h"
#include "backend_cuda/step_data.h"
#include "ops/backend.h"

namespace banter::cuda {

/** How large a step is: what grids are made for. */
struct StepShape {
  int32_t rows = 0, logit_rows = 0, tiles = 0;
  int32_t tile_rows = 1;  // of the largest tile
  int32_t splits = 1;     // of kSplitKeys keys that the longest sequence's positions fall into
  /** Every sequence has one row, and each row wants its logits, in order: a step that can be a graph's. */
  bool is_decode = false;
};

/** The KV groups that a program uses, and the slabs that their page tables point into. */
class PageSources {
 public:
  void clear();
  void add(const ops::KvPages& pages);

  struct Source {
    std::byte* const* slabs;  // the host's array; null: one slab
    std::byte* slab;
    int32_t slab_shift;
  };
  std::span<const Source> sources() const { return sources_; }
  /** Tokens of a page; 0: the group is not used. */
  int32_t page_tokens(size_t group) const { return page_tokens_[group]; }
  int32_t source_of(size_t group) const { return source_of_[group]; }

 private:
  std::vector<Source> sources_;
  std::array<int32_t, ops::kMaxKvGroups> page_tokens_{}, source_of_{};
};

class StepUpload {
 public:
  /** Cuts the step's sequences into attention tiles and measures it. `logit_rows` as LogitsParams::row_indices. */
  StepShape measure(const ops::Step& step, std::span<const int32_t> logit_rows);

  /** Queues the copy of the step measured last. The pinned copy is the stream's until it has been waited for.
   *  Errors: OUT_OF_MEMORY, BACKEND. */
  Result<void> send(const ops::Step& step, std::span<const int32_t> logit_rows, const PageSources& pages,
                    const Stream& stream);

  /** Addresses as of the last send(): with the step's real counts, or with counts that never end a grid early. */
  StepView view(bool counted) const;
  std::byte* const* slab_table(int32_t source) const;
  /** Changes whenever the addresses do. */
  int32_t generation() const { return generation_; }
  /** As Memory::abandon(). */
  void abandon() {
    device_.abandon();
    pinned_.abandon();
  }

 private:
  struct Layout {
    size_t tokens, positions, row_sequence, logit_rows, sequences, tiles, slabs, tables, end;
  };
  Layout layout() const;
  Result<void> reserve(size_t rows, size_t sources, size_t slabs, size_t tables);
  size_t count_tables(const ops::Step& step, const PageSources& pages);
  void fill_tables(const ops::Step& step, const PageSources& pages);
  void fill(const ops::Step& step, std::span<const int32_t> logit_rows, const PageSources& pages);
  template <class T>
  T* host(size_t offset) const {
    return reinterpret_cast<T*>(pinned_.as() + offset);
  }
  template <class T>
  T* device(size_t offset) const {
    return reinterpret_cast<T*>(device_.as() + offset);
  }

  DeviceMemory device_;
  PinnedMemory pinned_;
  size_t rows_ = 0, sources_ = 0, slabs_ = 0, tables_ = 0;  // capacities
  int32_t generation_ = 0;
  StepShape shape_;
  std::vector<AttentionTile> tiles_;
  std::vector<DeviceSequence> sequences_;
  std::vector<size_t> slab_counts_;  // of each source: how many of its slabs the step's tables name
};

}  // namespace banter::cuda
