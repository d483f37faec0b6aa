// The ops that work on rows (norm, rotary embedding with KV write, attention): cuts them into units for the threads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend_cpu/cpu_backend.h"
#include "backend_cpu/row_kernels.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "ops/backend.h"

namespace banter::cpu {

/** A rotary embedding, with the rotations of the current step's rows. */
class CpuRope final : public ops::Rope {
 public:
  explicit CpuRope(ops::RopeSpec spec) : spec_(std::move(spec)) {}
  /** Computes the rotations of every row of the step, once a step (`step_number` tells). */
  void prepare(const ops::Step& step, uint64_t step_number);
  RowRotation row(int32_t row) const;

 private:
  ops::RopeSpec spec_;
  uint64_t step_number_ = 0;
  std::vector<float> rotations_;  // [rows][cos, sin][n_rot / 2]
};

/** One engine thread calls; the pool's threads work. Memory grows to what the largest step so far needed and stays. */
class RowOps {
 public:
  RowOps(ThreadPool& pool, Isa isa);
  void begin_step(const ops::Step& step);
  void norm(const ops::NormParams& params);
  Result<void> rope_kv(const ops::RopeKvParams& params);
  Result<void> attention(const ops::AttentionParams& params);

 private:
  /** `floats` of scratch for each thread, 64-byte aligned. */
  Result<void> reserve_scratch(size_t floats);
  float* scratch(int32_t thread) const { return scratch_.get() + scratch_floats_ * static_cast<size_t>(thread); }

  struct FreeScratch {
    void operator()(float* memory) const;
  };
  ThreadPool& pool_;
  const RowKernels& kernels_;
  ops::Step step_;
  uint64_t step_number_ = 0;
  std::unique_ptr<float[], FreeScratch> scratch_;
  size_t scratch_floats_ = 0;
  std::vector<AttentionUnit> units_;
};

}  // namespace banter::cpu
