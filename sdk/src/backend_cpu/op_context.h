// What the CPU ops of a step work with, and the ops that are not matrix products.
#pragma once

#include <cstdint>
#include <vector>

#include "backend_cpu/kernels.h"
#include "base/thread_pool.h"
#include "ops/backend.h"

namespace banter::cpu {

struct OpContext {
  ThreadPool& pool;
  const Kernels& kernels;
  const ops::Step& step;  // of begin_step()
  uint64_t step_number;   // counts begin_step() calls
};

/** A rotary embedding, with the turns of the current step's rows. */
class CpuRope final : public ops::Rope {
 public:
  explicit CpuRope(ops::RopeSpec spec) : spec_(std::move(spec)) {}
  const ops::RopeSpec& spec() const { return spec_; }
  /** cos and sin times the magnitude for every row of the step, [rows][2][n_rot / 2]; computed once a step. Engine thread
   *  only. */
  const float* turns(const OpContext& context) const;

 private:
  ops::RopeSpec spec_;
  mutable uint64_t step_number_ = 0;
  mutable std::vector<float> turns_;
};

void norm(const OpContext& context, const ops::NormParams& params);
void rope_kv(const OpContext& context, const ops::RopeKvParams& params);
void attention(const OpContext& context, const ops::AttentionParams& params);

}  // namespace banter::cpu
