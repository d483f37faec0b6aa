// A decoder's weights on a backend: which tensors a file must hold, in which shapes, and how they get there.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "model/hyperparameters.h"
#include "model/load_progress.h"
#include "ops/backend.h"

namespace banter::model {

/** Memory of a backend, given back when destroyed. The backend must outlive it. */
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  static Result<DeviceBuffer> create(ops::Backend& backend, size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  void* data() const { return data_; }

 private:
  ops::Backend* backend_ = nullptr;
  void* data_ = nullptr;
};

/** Shapes as [rows = out][cols = in]; D embedding, Q = heads · head_dim, K = kv_heads · head_dim, F feed_forward. */
struct LayerWeights {
  std::unique_ptr<ops::Weight> q, k, v;           // [Q][D], [K][D], [K][D]
  std::unique_ptr<ops::Weight> output;            // [D][Q]
  std::unique_ptr<ops::Weight> gate, up;          // [F][D]
  std::unique_ptr<ops::Weight> down;              // [D][F]
  const float* q_bias = nullptr;                  // [Q]; null: none
  const float* k_bias = nullptr;                  // [K]
  const float* v_bias = nullptr;                  // [K]
  const float* output_bias = nullptr;             // [D]
  const float* q_norm = nullptr;                  // [head_dim]; null: none
  const float* k_norm = nullptr;                  // [head_dim]
  const float* attention_norm = nullptr;          // [D]
  const float* post_attention_norm = nullptr;     // [D]; null: none
  const float* feed_forward_norm = nullptr;       // [D]
  const float* post_feed_forward_norm = nullptr;  // [D]; null: none
};

struct DecoderWeights {
  std::unique_ptr<ops::Weight> embedding;  // [vocabulary][D]
  std::unique_ptr<ops::Weight> head;       // [vocabulary][D]; null: the embedding serves as head
  const float* output_norm = nullptr;      // [D]
  std::vector<LayerWeights> layers;
  DeviceBuffer vectors;  // owns every vector above
  size_t bytes = 0;      // that the backend holds for all of it
  const ops::Weight& output_head() const { return head != nullptr ? *head : *embedding; }
};

/** Checks that `file` holds every tensor `hp` calls for, in its shape and in a type we read, and no other; then that the
 *  machine has the memory for weights and `extra_bytes` (activations); then uploads. Progress counts bytes.
 *  Errors: MISSING_TENSOR, CORRUPT (shape), UNSUPPORTED_TYPE, UNSUPPORTED (unknown tensor), OUT_OF_MEMORY, CANCELLED, and
 *  those of the file. Each names the tensor. */
Result<DecoderWeights> load_weights(const formats::Gguf& file, const Hyperparameters& hp, ops::Backend& backend,
                                    uint64_t extra_bytes, const LoadProgress& progress);

}  // namespace banter::model
