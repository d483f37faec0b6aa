// Queues a program's kernels: decides in which form each result is written by looking at what reads it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backend_cuda/kernels.h"
#include "backend_cuda/program.h"
#include "backend_cuda/scratch.h"
#include "backend_cuda/step_upload.h"

namespace banter::cuda {

class Executor {
 public:
  explicit Executor(const DeviceLimits& device) : device_(device) {}
  /** From now on only kernels that exist for this compute capability. */
  void limit(int32_t capability) { device_.compute_capability = std::min(device_.compute_capability, capability); }

  /** Makes room for the program's kernels on a grid of this shape. Errors: OUT_OF_MEMORY, BACKEND. */
  Result<void> prepare(const Program& program, const StepShape& grid);

  /** Puts the kernels into the queue. `counted`: the grid was rounded up, and kernels leave by the step's real counts.
   *  Errors: BACKEND. */
  Result<void> issue(const Program& program, const StepShape& grid, bool counted, const StepUpload& upload,
                     const PageSources& pages, KernelQueue queue);

  /** Device memory of the best logits, [grid.logit_rows]. */
  const BestRow* best_rows() const { return scratch_.best_rows(); }
  int32_t generation() const { return scratch_.generation(); }
  void abandon() { scratch_.abandon(); }  // as Memory::abandon()

 private:
  struct Call;  // what an op's function needs of the call of issue()
  cudaError_t run(const Call& call, const EmbedOp& op);
  cudaError_t run(const Call& call, const NormOp& op);
  cudaError_t run(const Call& call, const LinearOp& op);
  cudaError_t run(const Call& call, const GatedOp& op);
  cudaError_t run(const Call& call, const RopeKvOp& op);
  cudaError_t run(const Call& call, const AttentionOp& op);
  cudaError_t run(const Call& call, const LogitsOp& op);
  cudaError_t run(const Call& call, const BestLogitsOp& op);
  /** The copy of x in `forms`, made now where nobody made it before. */
  cudaError_t quantised(const Call& call, const float* x, int32_t rows, int64_t cols, QuantisedForms forms,
                        QuantisedRows& out);
  QuantisedForms forms_wanted(const Program& program, size_t from, const float* x) const;

  DeviceLimits device_;
  Scratch scratch_;
};

}  // namespace banter::cuda
