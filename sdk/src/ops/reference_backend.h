// The reference backend's class: what its files, one per group of ops, share. Not for other layers: see reference.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ops/backend.h"

namespace banter::ops {

/** Frees what allocate_aligned() gave. */
struct AlignedFree {
  void operator()(std::byte* memory) const;
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedFree>;

/** `bytes` (at least 1) of host memory at a 64-byte boundary, or null. */
AlignedBytes allocate_aligned(size_t bytes);

/** A matrix as it stood in its file. */
class ReferenceWeight final : public Weight {
 public:
  AlignedBytes blocks;  // [rows] rows of row_bytes each
  size_t row_bytes = 0;
  /** Row `row` as float32 into `out` [cols]. */
  void dequantize_row(int64_t row, float* out) const;
};

/** x = H x in blocks of kv_rotation_block(head_dim) dimensions, H_ij = (-1)^popcount(i & j) / sqrt(block): orthonormal and
 *  its own inverse. */
void rotate_hadamard(double* x, int32_t head_dim);

class ReferenceRope final : public Rope {
 public:
  RopeSpec spec;
};

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(ThreadPool& pool);

  const std::string& name() const override { return name_; }
  Result<void*> allocate(size_t bytes) override;
  void deallocate(void* memory) override;
  bool is_host_memory() const override { return true; }
  Result<void> copy_to_host(void* host, const void* device, size_t bytes) override;
  Result<void> copy_from_host(void* device, const void* host, size_t bytes) override;
  Result<void> copy(void* to, const void* from, size_t bytes) override { return copy_from_host(to, from, bytes); }
  bool supports(KvType) const override { return true; }
  KvType default_kv_type() const override { return KvType::kF32; }
  bool shifts_keys() const override { return true; }
  std::optional<KvLayout> kv_layout(const KvGeometry& geometry) const override;
  void set_upload_progress(UploadProgress progress) override { upload_progress_ = std::move(progress); }
  Result<std::unique_ptr<Weight>> upload(TensorType type, int64_t rows, int64_t cols, std::span<const std::byte> data,
                                         WeightUse use) override;
  Result<std::unique_ptr<Rope>> create_rope(RopeSpec spec) override;

  void begin_step(const Step& step) override;
  void embed(const EmbedParams& params) override;
  void norm(const NormParams& params) override;
  void linear(const LinearParams& params) override;
  void gated(const GatedParams& params) override;
  void rope_kv(const RopeKvParams& params) override;
  void attention(const AttentionParams& params) override;
  void logits(const LogitsParams& params) override;
  Result<void> end_step() override;

 private:
  /** Weight rows that one unit of work dequantises together: enough to reuse each x row from cache, few enough that
   *  the rows of a wide matrix (8 · 16384 float64 = 1 MiB) stay in a second-level cache. */
  static constexpr int32_t kUnitRows = 8;

  struct ThreadScratch {
    std::vector<float> row;       // one dequantised row
    std::vector<double> weights;  // kUnitRows rows
    std::vector<double> scores;   // attention: one head's scores, then its output
  };

  /** x_[i] = float64 of row `row_indices[i]` of x (all rows when null). */
  void load_rows(const float* x, int32_t rows, int64_t cols, const int32_t* row_indices);
  /** Dequantises rows [first, first + count) of `weight` into the thread's scratch. */
  const double* load_weights(const Weight& weight, int64_t first, int64_t count, int32_t thread);
  /** The KV vector (value 0 = K, 1 = V) of position t as float64; false, and a recorded error, when its page is gone. */
  bool load_kv(const KvPages& kv, const StepSequence& sequence, int32_t layer, int value, int32_t head, int32_t t,
               double* out);
  void store_kv(const KvPages& kv, const StepSequence& sequence, int32_t layer, int value, int32_t head, int32_t t,
                const float* vector);
  std::byte* kv_vector(const KvPages& kv, const StepSequence& sequence, int32_t layer, int value, int32_t head,
                       int32_t t);
  void attend(const AttentionParams& params, const StepSequence& sequence, int32_t row, int32_t head, int32_t thread);
  ThreadScratch& scratch(int32_t thread) { return scratch_[static_cast<size_t>(thread)]; }

  std::string name_ = "reference";
  ThreadPool& pool_;
  UploadProgress upload_progress_;
  Step step_;
  std::vector<int32_t> sequence_of_row_;
  std::vector<double> x_;  // the op's input rows in float64
  std::vector<ThreadScratch> scratch_;
  std::atomic<bool> missing_page_{false};
};

}  // namespace banter::ops
