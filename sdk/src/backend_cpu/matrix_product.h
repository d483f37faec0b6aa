// Matrix products over packed weights: quantises activations once, cuts the output rows into units, runs the kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "backend_cpu/kernels.h"
#include "backend_cpu/memory.h"
#include "base/thread_pool.h"

namespace banter::cpu {

/** The products of one backend, with their scratch memory. One thread at a time. */
class MatrixProduct {
 public:
  MatrixProduct(ThreadPool& pool, const Kernels& kernels) : pool_(pool), kernels_(kernels) {}

  // As ops::Backend. Errors: OUT_OF_MEMORY for scratch, INVALID_ARGUMENT for a token outside the table.
  Result<void> embed(std::span<const int32_t> tokens, const ops::EmbedParams& params);
  Result<void> linear(const ops::LinearParams& params);
  Result<void> gated(const ops::GatedParams& params);
  Result<void> logits(const ops::LogitsParams& params);

 private:
  struct Output {
    const PackedWeight* weight = nullptr;
    const PackedWeight* gate = nullptr;  // gated(): y = act(gate · x) ⊙ (weight · x)
    const float* bias = nullptr;
    float* y = nullptr;  // [rows][weight->rows]
    float softcap = 0;
    ops::Activation activation = ops::Activation::kSilu;
    int32_t part = 0, parts = 1;  // of its panels

    int64_t first_panel() const { return weight->panel_count() * part / parts; }
    int64_t panel_count() const { return weight->panel_count() * (part + 1) / parts - first_panel(); }
  };
  /** Rows of activations in both forms; `floats` is set where a float weight reads them. */
  struct Inputs {
    const float* floats = nullptr;
    const ActivationBlock* blocks = nullptr;
    int32_t rows = 0;
  };
  struct Slice;

  Result<const ActivationBlock*> quantize(const float* x, int32_t rows, int64_t cols, const int32_t* indices);
  Result<void> multiply(const float* x, int32_t rows, int64_t cols, std::span<const Output> outputs);
  void multiply_chunk(const Inputs& inputs, std::span<const Output> outputs);
  void run_slice(const Inputs& inputs, const Output& output, const Slice& slice) const;
  void run_panel(const Inputs& inputs, const PackedWeight& weight, const Slice& slice, int64_t panel, float* y,
                 size_t y_stride) const;

  ThreadPool& pool_;
  const Kernels& kernels_;
  Scratch blocks_;
  Scratch gathered_;
};

}  // namespace banter::cpu
