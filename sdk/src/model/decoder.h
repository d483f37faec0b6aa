// The forward pass of a decoder-only transformer: a plain sequence of a backend's ops.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/page_pool.h"
#include "model/batch.h"
#include "model/hyperparameters.h"
#include "model/weights.h"
#include "ops/backend.h"
#include "sampling/sampler.h"

namespace banter::model {

/** Bytes of buffers that a decoder of these sizes allocates. */
uint64_t decoder_buffer_bytes(const Hyperparameters& hp, int32_t max_rows, int32_t max_logit_rows);

/** Runs steps; see Model::forward. Borrows hyper-parameters, weights and backend. */
class Decoder {
 public:
  /** @param kv_type  of the pools that it will be given */
  static Result<std::unique_ptr<Decoder>> create(const Hyperparameters& hp, const DecoderWeights& weights,
                                                 ops::Backend& backend, ops::KvType kv_type, int32_t max_rows,
                                                 int32_t max_logit_rows);

  Result<std::span<float>> forward(const kv::PagePool& pool, const Batch& batch);
  Result<int32_t> forward_best(const kv::PagePool& pool, const Batch& batch);
  sampling::LogitRow logit_row(int32_t row);
  const Error* logit_error() const { return logit_error_ ? &*logit_error_ : nullptr; }

 private:
  Decoder(const Hyperparameters& hp, const DecoderWeights& weights, ops::Backend& backend)
      : hp_(hp), weights_(weights), backend_(backend) {}

  Result<void> make_key_shifts();
  Result<void> allocate_buffers(int32_t max_rows, int32_t max_logit_rows);
  Result<void> check(const kv::PagePool& pool, const Batch& batch) const;
  Result<void> run(const kv::PagePool& pool, const Batch& batch, bool best);
  Result<std::span<float>> fetch(int32_t first_row, int32_t rows);
  void pack(const kv::PagePool& pool, const Batch& batch);
  void run_layer(const kv::PagePool& pool, size_t index);
  void run_attention(const kv::PagePool& pool, size_t index);
  void run_tail(size_t index, int32_t first_row);

  const Hyperparameters& hp_;
  const DecoderWeights& weights_;
  ops::Backend& backend_;
  std::vector<std::unique_ptr<ops::Rope>> ropes_;
  DeviceBuffer shift_memory_;
  std::vector<const float*> key_shifts_;  // [layers], null where there is none; empty: nowhere
  int32_t max_rows_ = 0, max_logit_rows_ = 0;
  int32_t head_parts_ = 1;  // of about a layer's size
  DeviceBuffer memory_;
  // Activations, R = max_rows: the residual stream, what a sub-layer reads, and what it gives.
  float* residual_ = nullptr;         // [R][D]
  float* hidden_ = nullptr;           // [R][D]
  float* delta_ = nullptr;            // [R][D]
  float* q_ = nullptr;                // [R][Q]
  float* k_ = nullptr;                // [R][K]
  float* v_ = nullptr;                // [R][K]
  float* attended_ = nullptr;         // [R][Q]
  float* gated_ = nullptr;            // [R][F]
  float* logits_ = nullptr;           // [max_logit_rows][vocabulary]
  std::optional<Error> logit_error_;  // of the first row of this step that could not be fetched
  std::vector<float> host_logits_;    // the same, where the backend's memory is not the host's

  // The step being built; sized once.
  std::vector<int32_t> tokens_, positions_, logit_rows_;
  std::vector<ops::StepSequence> sequences_;
};

}  // namespace banter::model
