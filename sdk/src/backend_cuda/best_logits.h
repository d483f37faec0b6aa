// What a device brings back of a row of logits.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend_cuda/kernel_queue.h"
#include "backend_cuda/step_data.h"
#include "ops/backend.h"

namespace banter::cuda {

/** As ops::BestLogits, as it stands in memory. */
struct BestRow {
  static constexpr int32_t kMost = ops::kMostBestLogits;
  int32_t count;
  float rest;
  int32_t ids[kMost];
  float logits[kMost];
};

/** out[i] of each row i of logits [rows][vocabulary]. As the functions of kernels.h. */
cudaError_t best_logits(const StepView& step, const float* logits, int32_t rows, int32_t vocabulary, BestRow* out,
                        KernelQueue queue);

}  // namespace banter::cuda
