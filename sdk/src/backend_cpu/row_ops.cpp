#include "backend_cpu/row_ops.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <string>

namespace banter::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};

const RowKernels& kernels_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Vnni:
    case Isa::kAvx512:
      return row_kernels_avx512();
    case Isa::kAvx2:
      return row_kernels_avx2();
    case Isa::kScalar:
      break;
  }
  return row_kernels_scalar();
}

}  // namespace

void CpuRope::prepare(const ops::Step& step, uint64_t step_number) {
  if (step_number_ == step_number) return;
  const size_t pairs = spec_.inverse_frequency.size();
  rotations_.resize(static_cast<size_t>(step.rows()) * 2 * pairs);
  float* out = rotations_.data();
  for (const int32_t position : step.positions) {
    for (size_t k = 0; k < pairs; ++k) {
      const double angle = position * spec_.inverse_frequency[k];
      out[k] = static_cast<float>(std::cos(angle) * spec_.magnitude);
      out[pairs + k] = static_cast<float>(std::sin(angle) * spec_.magnitude);
    }
    out += 2 * pairs;
  }
  step_number_ = step_number;
}

RowRotation CpuRope::row(int32_t row) const {
  const size_t pairs = spec_.inverse_frequency.size();
  const float* start = rotations_.data() + static_cast<size_t>(row) * 2 * pairs;
  return {start, start + pairs, static_cast<int32_t>(pairs), spec_.adjacent_pairs};
}

void RowOps::FreeScratch::operator()(float* memory) const {
  ::operator delete(memory, kAlignment);
}

RowOps::RowOps(ThreadPool& pool, Isa isa) : pool_(pool), kernels_(kernels_of(isa)) {}

void RowOps::begin_step(const ops::Step& step) {
  step_ = step;
  ++step_number_;
}

Result<void> RowOps::reserve_scratch(size_t floats) {
  floats = (floats + 15) / 16 * 16;
  if (floats <= scratch_floats_) return {};
  const size_t bytes = floats * sizeof(float) * static_cast<size_t>(pool_.threads());
  scratch_.reset(static_cast<float*>(::operator new(bytes, kAlignment, std::nothrow)));
  scratch_floats_ = scratch_ == nullptr ? 0 : floats;
  if (scratch_ == nullptr)
    return Error{BANTER_ERROR_OUT_OF_MEMORY,
                 "There is no memory for " + std::to_string(bytes >> 10) + " KiB of attention scratch."};
  return {};
}

void RowOps::norm(const ops::NormParams& params) {
  constexpr int32_t kRows = 8;  // a few microseconds
  pool_.for_each((params.rows + kRows - 1) / kRows, [&](int32_t unit, int32_t) {
    for (int32_t row = unit * kRows; row < std::min(params.rows, (unit + 1) * kRows); ++row) kernels_.norm(params, row);
  });
}

Result<void> RowOps::rope_kv(const ops::RopeKvParams& params) {
  if (Result<void> ok = reserve_scratch(static_cast<size_t>(params.kv->geometry.head_dim)); !ok) return ok;
  // The rope is the backend's own; preparing it changes only its cache of this step's rotations.
  auto* rope = const_cast<CpuRope*>(static_cast<const CpuRope*>(params.rope));
  if (rope != nullptr) rope->prepare(step_, step_number_);
  constexpr int32_t kRows = 4;
  for (const ops::StepSequence& sequence : step_.sequences) {
    pool_.for_each((sequence.rows + kRows - 1) / kRows, [&](int32_t unit, int32_t thread) {
      for (int32_t i = unit * kRows; i < std::min(sequence.rows, (unit + 1) * kRows); ++i) {
        const int32_t row = sequence.first_row + i;
        kernels_.rope_kv(params, rope == nullptr ? RowRotation{} : rope->row(row), sequence, row, sequence.position + i,
                         scratch(thread));
      }
    });
  }
  return {};
}

Result<void> RowOps::attention(const ops::AttentionParams& params) {
  const int32_t kv_heads = params.kv->geometry.kv_heads, group = params.heads / kv_heads;
  const int32_t unit_rows = std::max(1, kAttentionQueries / group);
  if (Result<void> ok = reserve_scratch(attention_scratch_floats(params.kv->geometry.head_dim, unit_rows * group)); !ok)
    return ok;
  units_.clear();
  for (const ops::StepSequence& sequence : step_.sequences)
    // The last rows see most keys: the longest units first, so that no thread is left with one at the end.
    for (int32_t first = (sequence.rows - 1) / unit_rows * unit_rows; first >= 0; first -= unit_rows)
      for (int32_t head = 0; head < kv_heads; ++head)
        units_.push_back({&params, &sequence, head, first, std::min(unit_rows, sequence.rows - first)});
  pool_.for_each(static_cast<int32_t>(units_.size()), [&](int32_t unit, int32_t thread) {
    kernels_.attention(units_[static_cast<size_t>(unit)], scratch(thread));
  });
  return {};
}

}  // namespace banter::cpu
