// The kernels, as the host calls them. Each function puts its kernels into the queue and returns the runtime's answer;
// none waits. All pointers are device memory unless said otherwise; `rows` are those that the grid is made for, a count
// that may be rounded up: kernels leave rows from StepView::counts on untouched.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend_cuda/device_weight.h"
#include "backend_cuda/kernel_queue.h"
#include "backend_cuda/step_data.h"
#include "ops/backend.h"

namespace banter::cuda {

/** What kernels need to know of the card. */
struct DeviceLimits {
  int32_t compute_capability = 75;  // 10 · major + minor
  int32_t multiprocessors = 1;
};

/** What belongs to 32 activations x ≈ q · d in 8 bits. */
struct alignas(8) ActivationScale {
  float d;
  int16_t n[2];  // Σ q of the first and of the second 16
};

/** Activations in the forms that matrix products read, of rows [0, rows) and `cols` columns. Any may be null: not
 *  wanted. Blocks of 32 columns; the last may be short and is filled up with zeros (cols rounded up to 32: `stride`).
 *    int8   x ≈ q · d, d = max|x| / 127 of the block, q = round to nearest even of x · (127 / max|x|). A block whose
 *           maximum is below 1e-30 is all zero with d = 0; one that holds an infinity or a NaN is zero with d = NaN
 *    half   x · 2^-e as float16, e the row's exponent: largest magnitude in [1, 2); 0 for rows of zeros
 *    bfloat x as bfloat16
 *  Scales stand block by block, rows side by side, so that a tile of tokens reads those of a block at once. */
struct QuantisedRows {
  int8_t* q = nullptr;                // [rows][stride]
  ActivationScale* scales = nullptr;  // [stride / 32][capacity]
  uint16_t* half = nullptr;           // [rows][stride]
  float* half_scale = nullptr;        // [rows] 2^e
  uint16_t* bfloat = nullptr;         // [rows][stride]
  int32_t stride = 0;
  int32_t capacity = 0;  // rows that there is room for, even
};

// ------------------------------------------------------------------------------------------------ row_kernels.cu

/** Finds the kernels for the current card; an error where this build has none. `capability` is then the one that they were compiled
 *  for (10 · major + minor), which may be below the card's: they have no other instructions than that. */
cudaError_t find_kernels(int32_t& capability);

cudaError_t embed(const StepView& step, int32_t rows, const DeviceWeight& table, float scale, float* out,
                  KernelQueue queue);

/** As ops::NormParams. Also writes the forms of `out` that `quantised` names. */
cudaError_t norm(const StepView& step, const ops::NormParams& params, const QuantisedRows& quantised,
                 KernelQueue queue);

/** The forms of x [rows][cols] that `out` names. `row_indices` not null: of rows row_indices[i] (device memory), i below
 *  StepView::counts->logit_rows. */
cudaError_t quantise(const StepView& step, const float* x, int32_t rows, int32_t cols, const int32_t* row_indices,
                     const QuantisedRows& out, KernelQueue queue);

/** As ops::RopeKvParams. */
struct RopeKvArgs {
  float* q;
  const float* k;
  const float* v;
  const float* q_norm;
  const float* k_norm;
  const float* k_shift;
  float epsilon;
  const float* cos_sin;  // [positions][pairs][2], magnitude included; null: no rotation
  int32_t pairs;         // n_rot / 2
  bool adjacent_pairs;
  int32_t heads;
  int32_t layer;
  DevicePages kv;
  DevicePages recent;  // page_stride 0: none
};
cudaError_t rope_kv(const StepView& step, int32_t rows, const RopeKvArgs& args, KernelQueue queue);

// ------------------------------------------------------------------------------------------------ attention.cu

/** As ops::AttentionParams. */
struct AttentionArgs {
  const float* q;
  float* out;
  int32_t heads;
  int32_t layer;
  int32_t window;
  float scale;
  float softcap;
  DevicePages kv;
  DevicePages recent;               // page_stride 0: none
  float* partials;                  // see attention_partial_floats()
  int32_t splits;                   // of the longest row; at least 1
  int32_t tile_rows = kTileTokens;  // of the largest tile: 1 where all tiles are single rows, as in decode
};
/** Keys of a split: a row's keys are cut at multiples of this position, each part is computed for itself, and the parts
 *  are merged in order, whichever way the work was spread over the card. */
inline constexpr int32_t kSplitKeys = 256;
/** Floats of `partials` for these counts, at most 8 Mi; 0 where one block does all of a tile's splits, and needs none. With
 *  partials null a block does so in any case. Which it is changes no bit of the result. */
size_t attention_partial_floats(int32_t tiles, int32_t heads, int32_t kv_heads, int32_t head_dim, int32_t splits,
                                int32_t tile_rows = kTileTokens);
cudaError_t attention(const StepView& step, int32_t tiles, const AttentionArgs& args, const DeviceLimits& device,
                      KernelQueue queue);

// ------------------------------------------------------------------------------------------------ linear.cu

/** y[r] = W x[r] + bias for up to three weights that read the same rows. */
struct LinearArgs {
  const float* x;           // [rows][cols]: F32 weights read it, and BF16 below compute capability 8.0
  QuantisedRows quantised;  // the form that each weight reads: int8, half, bfloat; none for F32
  int32_t rows;
  // Rows are counted by StepView::counts->logit_rows, from 0; then `x` is the step's, read at StepView::logit_rows.
  bool logit_rows;
  int32_t targets;
  const DeviceWeight* weights[3];
  const float* biases[3];  // null: none
  float* ys[3];            // [rows][weight.rows]
  float softcap;           // 0: none
};
cudaError_t linear(const StepView& step, const LinearArgs& args, const DeviceLimits& device, KernelQueue queue);

/** out = act(Wg x) ⊙ (Wu x), and the forms of it that `quantised_out` names. */
struct GatedArgs {
  const DeviceWeight* gate;
  const DeviceWeight* up;
  const float* x;
  QuantisedRows quantised;
  int32_t rows;
  ops::Activation activation;
  float* out;      // [rows][ff]
  float* scratch;  // [rows][ff], unless rows <= 8 and both weights are of one form
  QuantisedRows quantised_out;
};
cudaError_t gated(const StepView& step, const GatedArgs& args, const DeviceLimits& device, KernelQueue queue);

}  // namespace banter::cuda
