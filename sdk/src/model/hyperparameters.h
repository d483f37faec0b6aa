// Shapes and switches of a decoder-only transformer, read and checked from metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "kv/page_pool.h"
#include "ops/backend.h"

namespace banter::model {

/** What distinguishes one layer. */
struct LayerKind {
  int32_t window = 0;  // sliding window, 0 = full attention
  int32_t rope = 0;    // index into Hyperparameters::ropes; -1 = none
  int32_t kv_group = 0;
  int32_t kv_layer = 0;  // index within its KV group
};

struct Hyperparameters {
  std::string architecture;
  int32_t vocabulary = 0, embedding = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, feed_forward = 0;
  int32_t trained_context = 0;
  int32_t context = 0;  // tokens of one sequence as configured, at most trained_context
  float norm_epsilon = 1e-5f;
  float embedding_scale = 1.0f;
  float attention_scale = 0.0f;
  float attention_softcap = 0.0f, logit_softcap = 0.0f;
  ops::Activation activation = ops::Activation::kSilu;
  bool qkv_bias = false, qk_norm = false, post_norms = false, fused_qkv = false, fused_gate_up = false;
  std::vector<ops::RopeSpec> ropes;
  std::vector<LayerKind> layer_kinds;  // [layers]

  int64_t q_dim() const { return int64_t{heads} * head_dim; }
  int64_t kv_dim() const { return int64_t{kv_heads} * head_dim; }
};

/** The longest context used when nobody asks for one: a model's own may be 131072 and cost gigabytes of cache. */
inline constexpr int32_t kDefaultContextLimit = 8192;

/** Reads `file`'s metadata for its architecture and checks every number against sane limits, so that nothing derived
 *  from them overflows or asks for absurd memory. Tensors are not touched, apart from the small ones of rotary factors
 *  and the shape of the embedding.
 *  @param context_length  tokens of one sequence as configured: chooses Phi-3's long or short factors, sizes ropes;
 *                         0 = the model's own, at most kDefaultContextLimit
 *  Errors: UNSUPPORTED_ARCHITECTURE, UNSUPPORTED, CORRUPT, MISSING_TENSOR, INVALID_ARGUMENT (context_length). */
Result<Hyperparameters> read_hyperparameters(const formats::Gguf& file, int32_t context_length);

/** Different attention windows of one model's layers, each a KV group that may have a companion. */
inline constexpr int32_t kMaxWindows = ops::kMaxKvGroups / 2;

/** How the layers cache: the groups of LayerKind::kv_group in that order, then the companions of quantised ones. Windows
 *  so short that a quantised copy with its companion would take more memory than F16 pages stay F16. */
std::vector<kv::GroupSpec> kv_groups(const Hyperparameters& hp, ops::KvType type);

/** OK when `backend` can keep this model's keys and values as `type`; else UNSUPPORTED, naming what does not go together. */
Result<void> check_kv_type(const Hyperparameters& hp, const ops::Backend& backend, ops::KvType type);

}  // namespace banter::model
