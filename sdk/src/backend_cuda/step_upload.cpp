#include "backend_cuda/step_upload.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "backend_cuda/kernels.h"

namespace banter::cuda {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/** The step's counts, then those that end nothing. */
struct Counts {
  StepCounts real;
  StepCounts unlimited;
};

int32_t entries_needed(const ops::StepSequence& sequence, int32_t page_tokens) {
  return (sequence.position + sequence.rows + page_tokens - 1) / page_tokens;
}

}  // namespace

void PageSources::clear() {
  sources_.clear();
  page_tokens_.fill(0);
}

void PageSources::add(const ops::KvPages& pages) {
  const Source source{pages.slabs, pages.slab, pages.slabs == nullptr ? kWholeSlab : pages.slab_shift};
  size_t i = 0;
  while (i < sources_.size() && (sources_[i].slabs != source.slabs || sources_[i].slab != source.slab)) ++i;
  if (i == sources_.size()) sources_.push_back(source);
  const auto group = static_cast<size_t>(pages.group);
  page_tokens_[group] = pages.geometry.page_tokens;
  source_of_[group] = static_cast<int32_t>(i);
}

StepShape StepUpload::measure(const ops::Step& step, std::span<const int32_t> logit_rows) {
  shape_ = {};
  shape_.rows = step.rows();
  shape_.logit_rows = static_cast<int32_t>(logit_rows.size());
  shape_.is_decode = logit_rows.size() == static_cast<size_t>(step.rows());
  tiles_.clear();
  for (size_t s = 0; s < step.sequences.size(); ++s) {
    const ops::StepSequence& sequence = step.sequences[s];
    shape_.is_decode = shape_.is_decode && sequence.rows == 1 && logit_rows[s] == sequence.first_row;
    for (int32_t row = 0; row < sequence.rows;) {
      const int32_t position = sequence.position + row;
      const int32_t to_border = ops::kKvRecentBlock - position % ops::kKvRecentBlock;
      const int32_t rows = std::min({kTileTokens, to_border, sequence.rows - row});
      tiles_.push_back({static_cast<int32_t>(s), sequence.first_row + row, rows, position});
      shape_.tile_rows = std::max(shape_.tile_rows, rows);
      row += rows;
    }
    shape_.splits = std::max(shape_.splits, (sequence.position + sequence.rows - 1) / kSplitKeys + 1);
  }
  shape_.tiles = static_cast<int32_t>(tiles_.size());
  return shape_;
}

StepUpload::Layout StepUpload::layout() const {
  Layout at{};
  size_t next = aligned(sizeof(Counts));
  const auto take = [&](size_t bytes) {
    const size_t start = next;
    next += aligned(bytes);
    return start;
  };
  at.tokens = take(rows_ * sizeof(int32_t));
  at.positions = take(rows_ * sizeof(int32_t));
  at.row_sequence = take(rows_ * sizeof(int32_t));
  at.logit_rows = take(rows_ * sizeof(int32_t));
  at.sequences = take(rows_ * sizeof(DeviceSequence));
  at.tiles = take(rows_ * sizeof(AttentionTile));
  at.slabs = take(sources_ * slabs_ * sizeof(std::byte*));
  at.tables = take(tables_ * sizeof(int32_t));
  at.end = next;
  return at;
}

Result<void> StepUpload::reserve(size_t rows, size_t sources, size_t slabs, size_t tables) {
  if (rows <= rows_ && sources <= sources_ && slabs <= slabs_ && tables <= tables_) return {};
  rows_ = std::max(rows_, std::bit_ceil(rows));
  sources_ = std::max(sources_, sources);
  slabs_ = std::max(slabs_, std::bit_ceil(slabs));
  tables_ = std::max(tables_, std::bit_ceil(tables));
  ++generation_;
  const size_t bytes = layout().end;
  Result<void> made = device_.allocate(bytes, "the step's data");
  if (made) made = pinned_.allocate(bytes, "the step's data");
  if (!made) rows_ = sources_ = slabs_ = tables_ = 0;
  return made;
}

// Also finds how many slabs of each source the step's tables name.
size_t StepUpload::count_tables(const ops::Step& step, const PageSources& pages) {
  slab_counts_.assign(pages.sources().size(), 1);
  size_t entries = 0;
  for (const ops::StepSequence& sequence : step.sequences) {
    for (size_t g = 0; g < ops::kMaxKvGroups; ++g) {
      if (pages.page_tokens(g) == 0) continue;
      entries += static_cast<size_t>(entries_needed(sequence, pages.page_tokens(g)));
      const auto source = static_cast<size_t>(pages.source_of(g));
      for (const int32_t page : sequence.page_tables[g]) {
        if (page < 0) continue;
        const auto slab = static_cast<size_t>(page >> pages.sources()[source].slab_shift);
        slab_counts_[source] = std::max(slab_counts_[source], slab + 1);
      }
    }
  }
  return entries;
}

void StepUpload::fill_tables(const ops::Step& step, const PageSources& pages) {
  int32_t* const tables = host<int32_t>(layout().tables);
  size_t at = 0;
  sequences_.clear();
  for (const ops::StepSequence& sequence : step.sequences) {
    DeviceSequence sent{sequence.first_row, sequence.rows, sequence.position, {}};
    for (size_t g = 0; g < ops::kMaxKvGroups; ++g) {
      if (pages.page_tokens(g) == 0) continue;
      const std::span<const int32_t> table = sequence.page_tables[g];
      const auto needed = static_cast<size_t>(entries_needed(sequence, pages.page_tokens(g)));
      const size_t given = std::min(needed, table.size());
      sent.tables[g] = static_cast<int32_t>(at);
      std::copy_n(table.begin(), given, tables + at);
      std::fill_n(tables + at + given, needed - given, -1);
      at += needed;
    }
    sequences_.push_back(sent);
  }
}

void StepUpload::fill(const ops::Step& step, std::span<const int32_t> logit_rows, const PageSources& pages) {
  const Layout at = layout();
  constexpr int32_t kMany = std::numeric_limits<int32_t>::max();
  *host<Counts>(0) = {{shape_.rows, static_cast<int32_t>(step.sequences.size()), shape_.logit_rows, shape_.tiles},
                      {kMany, kMany, kMany, kMany}};
  std::copy(step.tokens.begin(), step.tokens.end(), host<int32_t>(at.tokens));
  std::copy(step.positions.begin(), step.positions.end(), host<int32_t>(at.positions));
  std::copy(logit_rows.begin(), logit_rows.end(), host<int32_t>(at.logit_rows));
  for (size_t s = 0; s < step.sequences.size(); ++s) {
    std::fill_n(host<int32_t>(at.row_sequence) + step.sequences[s].first_row, step.sequences[s].rows,
                static_cast<int32_t>(s));
  }
  std::copy(sequences_.begin(), sequences_.end(), host<DeviceSequence>(at.sequences));
  std::copy(tiles_.begin(), tiles_.end(), host<AttentionTile>(at.tiles));
  for (size_t i = 0; i < pages.sources().size(); ++i) {
    const PageSources::Source& source = pages.sources()[i];
    std::byte** const table = host<std::byte*>(at.slabs) + slabs_ * i;
    std::copy_n(source.slabs == nullptr ? &source.slab : source.slabs, slab_counts_[i], table);
  }
}

Result<void> StepUpload::send(const ops::Step& step, std::span<const int32_t> logit_rows, const PageSources& pages,
                              const Stream& stream) {
  const size_t tables = count_tables(step, pages);
  size_t slabs = 1;
  for (const size_t count : slab_counts_) slabs = std::max(slabs, count);
  const size_t rows = std::max<size_t>({step.tokens.size(), logit_rows.size(), step.sequences.size(), 1});
  if (Result<void> room =
          reserve(rows, std::max<size_t>(pages.sources().size(), 1), slabs, std::max<size_t>(tables, 1));
      !room) {
    return room;
  }
  fill_tables(step, pages);
  fill(step, logit_rows, pages);
  const size_t bytes = layout().tables + tables * sizeof(int32_t);
  return check(cudaMemcpyAsync(device_.as(), pinned_.as(), bytes, cudaMemcpyHostToDevice, stream.get()),
               "sending a step's data");
}

StepView StepUpload::view(bool counted) const {
  const Layout at = layout();
  const auto* counts = device<const Counts>(0);
  return {.counts = counted ? &counts->real : &counts->unlimited,
          .tokens = device<const int32_t>(at.tokens),
          .positions = device<const int32_t>(at.positions),
          .row_sequence = device<const int32_t>(at.row_sequence),
          .logit_rows = device<const int32_t>(at.logit_rows),
          .sequences = device<const DeviceSequence>(at.sequences),
          .tiles = device<const AttentionTile>(at.tiles),
          .tables = device<const int32_t>(at.tables)};
}

std::byte* const* StepUpload::slab_table(int32_t source) const {
  return device<std::byte* const>(layout().slabs) + slabs_ * static_cast<size_t>(source);
}

}  // namespace banter::cuda
