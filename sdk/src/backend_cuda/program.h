// A step's ops as the model asked for them, kept until end_step(): only then is it known what each result is read by
// (which decides in what form it is written), and whether the same step was made a graph before.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "backend_cuda/device_weight.h"
#include "ops/backend.h"

namespace banter::cuda {

class CudaRope;

/** PagesOp::slab_shift of pages that stand in one slab: their place in it is their number. */
inline constexpr int32_t kWholeSlab = 30;

/** In place of a row count: all rows of the step. Programs of steps with different counts are then equal. */
inline constexpr int32_t kAllRows = -1;

struct EmbedOp {
  const DeviceWeight* table;
  float* out;
  float scale;
  bool operator==(const EmbedOp&) const = default;
};
struct NormOp {
  float* residual;
  const float* delta;
  const float* delta_norm;
  const float* norm;
  float* out;
  int32_t rows, dim;
  float epsilon;
  bool operator==(const NormOp&) const = default;
};
struct LinearOp {
  const float* x;
  int32_t rows, targets;
  const DeviceWeight* weights[3];
  const float* biases[3];
  float* ys[3];
  bool operator==(const LinearOp&) const = default;
};
struct GatedOp {
  const DeviceWeight* gate;
  const DeviceWeight* up;
  const float* x;
  float* out;
  int32_t rows;
  ops::Activation activation;
  bool operator==(const GatedOp&) const = default;
};
/** The parts of ops::KvPages that kernels use; its slabs' addresses travel with the step. */
struct PagesOp {
  size_t page_stride = 0;  // 0: no pages
  int32_t slab_shift = 0, group = 0;
  ops::KvType type = ops::KvType::kF16;
  int32_t layers = 0, kv_heads = 0, head_dim = 0, page_tokens = 0;
  bool operator==(const PagesOp&) const = default;
};
struct RopeKvOp {
  float* q;
  const float* k;
  const float* v;
  const float* q_norm;
  const float* k_norm;
  const float* k_shift;
  float epsilon;
  const CudaRope* rope;
  int32_t heads, layer;
  PagesOp kv, recent;
  bool operator==(const RopeKvOp&) const = default;
};
struct AttentionOp {
  const float* q;
  float* out;
  int32_t heads, layer, window;
  float scale, softcap;
  PagesOp kv, recent;
  bool operator==(const AttentionOp&) const = default;
};
/** The rows' numbers travel with the step. */
struct LogitsOp {
  const DeviceWeight* head;
  const float* x;
  float* logits;
  float softcap;
  bool operator==(const LogitsOp&) const = default;
};

/** The best of the logits that the LogitsOp before gave. */
struct BestLogitsOp {
  const float* logits;
  int32_t vocabulary;
  bool operator==(const BestLogitsOp&) const = default;
};

using Op = std::variant<EmbedOp, NormOp, LinearOp, GatedOp, RopeKvOp, AttentionOp, LogitsOp, BestLogitsOp>;
using Program = std::vector<Op>;

}  // namespace banter::cuda
