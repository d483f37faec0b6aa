// The Backend interface: everything a model needs from a compute device, about a dozen fused ops over raw pointers.
//
// A backend supplies memory, keeps weights in a layout of its own, and runs ops in the order they are called. Pointers
// in op parameters are memory of that backend (allocate()); host code never dereferences them unless
// is_host_memory(). Ops return nothing: a backend remembers its first failure and reports it from end_step(), so a device
// may run asynchronously. One thread (the engine thread) calls a backend.
//
// Order of a step:   begin_step(step) → ops … → end_step()
//
// Every op must be batch-invariant: a row's result is bit-equal whatever other rows share the call, however rows are
// cut into calls, and whatever the number of threads. So: a fixed reduction order per row, never split by batch size.
//
// To add a backend: implement this interface, run tests/ops and tests/model against it (they are parametrised by
// backend), and state in each kernel's header the bytes it must move.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/tensor_type.h"
#include "ops/kv_format.h"
#include "ops/kv_layout.h"

namespace banter::ops {

using formats::TensorType;

inline constexpr int kMaxKvGroups = 8;

/** A KV group's pages. They stand in slabs of 2^slab_shift pages each, so that a pool can grow and shrink; or all in one
 *  (`slabs` null). */
struct KvPages {
  std::byte* slab = nullptr;
  size_t page_stride = 0;  // ≥ geometry.page_bytes(), a multiple of 64; equal for all groups of a pool
  KvGeometry geometry;
  int32_t group = 0;  // index into StepSequence::page_tables
  std::byte* const* slabs = nullptr;
  int32_t slab_shift = 0;

  std::byte* page(int32_t index) const {
    std::byte* const start = slabs == nullptr ? slab : slabs[index >> slab_shift];
    const int32_t within = slabs == nullptr ? index : index & ((1 << slab_shift) - 1);
    return start + static_cast<size_t>(within) * page_stride;
  }
};

/** A sequence's rows of this step. Token at position t of the sequence lives in page page_tables[group][t / page_tokens],
 *  slot t % page_tokens; entries of pages already released by a sliding window are -1 and never touched. */
struct StepSequence {
  int32_t first_row = 0;
  int32_t rows = 0;
  int32_t position = 0;  // of its first row; the sequence's rows are consecutive positions
  std::array<std::span<const int32_t>, kMaxKvGroups> page_tables;
};

/** All rows of one step: sequences packed one after another. Borrowed until end_step(). */
struct Step {
  std::span<const int32_t> tokens;     // [rows]
  std::span<const int32_t> positions;  // [rows]
  std::span<const StepSequence> sequences;
  int32_t rows() const { return static_cast<int32_t>(tokens.size()); }
};

/** A weight matrix W [rows = out][cols = in] in a backend's own layout. */
class Weight {
 public:
  virtual ~Weight() = default;
  TensorType type = TensorType::kF32;
  int64_t rows = 0, cols = 0;
  size_t bytes = 0;  // that the backend holds for it
};

enum class WeightUse : uint8_t {
  kLinear,     // matrix products only
  kEmbedding,  // row look-ups only
  kBoth,       // a tied embedding: look-ups, and the output head
};

/** Rotary embedding of one layer kind: pair k at position p turns by p · inverse_frequency[k].
 *  Su et al. 2021, RoFormer; scaling variants are folded into the numbers by model/rope.h. */
struct RopeSpec {
  std::vector<double> inverse_frequency;  // [n_rot / 2]
  float magnitude = 1.0f;                 // multiplies cos and sin (YaRN, longrope)
  bool adjacent_pairs = false;            // pairs (2k, 2k+1) instead of (k, k + n_rot/2)
  int32_t max_positions = 0;
};
class Rope {
 public:
  virtual ~Rope() = default;
};

enum class Activation : uint8_t { kSilu, kGeluTanh };

/** out[r] = table[token(r)] · scale.  out [rows][dim]. */
struct EmbedParams {
  const Weight* table;
  float* out;
  float scale = 1.0f;
};

/** residual += delta_norm ? rms(delta) · delta_norm : delta;   out = rms(residual) · norm.
 *  rms(x) = x / sqrt(mean(x²) + epsilon) (Zhang & Sennrich 2019). `delta` null: nothing added. `out` null: no second part. */
struct NormParams {
  float* residual;                    // [rows][dim]
  const float* delta = nullptr;       // [rows][dim]
  const float* delta_norm = nullptr;  // [dim]
  const float* norm = nullptr;        // [dim]
  float* out = nullptr;               // [rows][dim]
  int32_t rows = 0, dim = 0;
  float epsilon = 1e-5f;
};

/** y[r] = W x[r] + bias for several weights that read the same x (Q, K and V): x is quantised once. */
struct LinearTarget {
  const Weight* weight;         // [out][in]
  const float* bias = nullptr;  // [out]
  float* y;                     // [rows][out]
};
struct LinearParams {
  const float* x;  // [rows][in]
  int32_t rows = 0;
  std::span<const LinearTarget> targets;
};

/** out = act(Wg x) ⊙ (Wu x).  x [rows][in], out [rows][ff]. */
struct GatedParams {
  const Weight* gate;
  const Weight* up;
  const float* x;
  float* out;
  int32_t rows = 0;
  Activation activation = Activation::kSilu;
};

/** Per head: q = rope(norm(q)), k = rope(norm(k)) − k_shift; then k and v go to the cache at each row's position. With
 *  quantised pages q, k and v are rotated before (kv_format.h), and k and v go to `recent`, where given, as well.
 *  One shift for all keys of a head changes all scores of a query by the same number, which softmax does not notice. */
struct RopeKvParams {
  float* q;                       // [rows][heads][head_dim], in place
  const float* k;                 // [rows][kv_heads][head_dim]
  const float* v;                 // [rows][kv_heads][head_dim]
  const float* q_norm = nullptr;  // [head_dim], RMS norm weights
  const float* k_norm = nullptr;
  float epsilon = 1e-5f;
  const Rope* rope = nullptr;  // null: no rotation
  int32_t heads = 0;
  const KvPages* kv = nullptr;
  int32_t layer = 0;                // within the KV group
  const KvPages* recent = nullptr;  // quantised `kv` only: its companion, F16 pages of the same layers and heads
  const float* k_shift = nullptr;   // [kv_heads][head_dim]; quantised `kv` and Backend::shifts_keys() only
};

/** out[r][h] = softmax(softcap(scale · q·K)) V over positions (p − window, p] (window 0: [0, p]) of the row's sequence.
 *  Grouped queries: head h reads KV head h / (heads / kv_heads). softcap(x) = c · tanh(x / c), c = 0: off.
 *  With quantised pages q comes rotated, and `out` is rotated back. */
struct AttentionParams {
  const float* q;  // [rows][heads][head_dim]
  float* out;      // [rows][heads][head_dim]
  int32_t heads = 0;
  const KvPages* kv = nullptr;
  int32_t layer = 0;
  int32_t window = 0;  // positions visible to a row, itself included; 0 = all
  float scale = 1.0f;
  float softcap = 0.0f;
  const KvPages* recent = nullptr;  // as in RopeKvParams; keys for which kv_is_recent() holds are read here
};

/** logits[i] = softcap(W x[row_indices[i]]).  x [rows][dim], logits [row_indices.size()][vocabulary]. */
struct LogitsParams {
  const Weight* head;
  const float* x;
  std::span<const int32_t> row_indices;  // host memory
  float* logits;
  float softcap = 0.0f;
  // Of `parts` about equal parts of the vocabulary this one alone is computed; a device's backend is asked for the whole.
  int32_t part = 0, parts = 1;
};

/** The best logits of a row: those above `rest`, in any order; nothing that is not finite. Exact. */
struct BestLogits {
  std::span<const int32_t> ids;   // at most kMostBestLogits
  std::span<const float> logits;  // of each id
  float rest = 0.0f;              // no other logit is above; -inf: there is no other
};
inline constexpr int32_t kMostBestLogits = 256;

class Backend {
 public:
  virtual ~Backend() = default;
  /** "reference", "cpu/avx512-vnni", … */
  virtual const std::string& name() const = 0;

  /** Memory of the device, 64-byte aligned, contents undefined. OUT_OF_MEMORY says how much was asked. */
  virtual Result<void*> allocate(size_t bytes) = 0;
  virtual void deallocate(void* memory) = 0;
  /** True where host code may read and write allocate()d memory directly; ops are then done when they return. */
  virtual bool is_host_memory() const = 0;
  /** Bytes that allocate() and upload() find on a device now, as far as it tells; nothing where memory is the host's. */
  virtual std::optional<uint64_t> free_memory() const { return std::nullopt; }
  virtual Result<void> copy_to_host(void* host, const void* device, size_t bytes) = 0;
  virtual Result<void> copy_from_host(void* device, const void* host, size_t bytes) = 0;
  /** Within the backend's memory; the two do not overlap. Ordered before the ops of the next step. */
  virtual Result<void> copy(void* to, const void* from, size_t bytes) = 0;

  /** Formats of KV pages that rope_kv and attention can work on. */
  virtual bool supports(KvType type) const { return type == KvType::kF16; }
  /** Whether they can for attention heads of this size. */
  virtual bool supports_heads(KvType type, int32_t head_dim) const { return kv_fits(type, head_dim); }
  /** The format a model uses when nobody asks for another. */
  virtual KvType default_kv_type() const { return KvType::kF16; }
  /** Whether rope_kv knows RopeKvParams::k_shift. */
  virtual bool shifts_keys() const { return false; }
  /** How these pages are laid out, for pages that go to a file. Nothing: they stay in memory. */
  virtual std::optional<KvLayout> kv_layout(const KvGeometry&) const { return std::nullopt; }

  /** Told the fraction of the matrix that is done, [0, 1]; false = give up, upload() then returns CANCELLED. */
  using UploadProgress = std::function<bool(float fraction)>;
  /** While set, upload() calls it on the calling thread, at least every 50 ms of work; an empty function unsets it.
   *  A backend whose uploads are always short may ignore it. */
  virtual void set_upload_progress(UploadProgress) {}

  /** Takes a matrix of `rows` × `cols` whose blocks stand in `data` in file layout (copied or repacked; `data` may go
   *  afterwards). Errors: OUT_OF_MEMORY, UNSUPPORTED_TYPE, CANCELLED. */
  virtual Result<std::unique_ptr<Weight>> upload(TensorType type, int64_t rows, int64_t cols,
                                                 std::span<const std::byte> data, WeightUse use) = 0;
  virtual Result<std::unique_ptr<Rope>> create_rope(RopeSpec spec) = 0;

  virtual void begin_step(const Step& step) = 0;
  virtual void embed(const EmbedParams& params) = 0;
  virtual void norm(const NormParams& params) = 0;
  virtual void linear(const LinearParams& params) = 0;
  virtual void gated(const GatedParams& params) = 0;
  virtual void rope_kv(const RopeKvParams& params) = 0;
  virtual void attention(const AttentionParams& params) = 0;
  virtual void logits(const LogitsParams& params) = 0;
  /** Behind logits() of this step: brings the best of each of its rows to the host, for samplers that need no others.
   *  Only where finds_best_logits(); a backend in host memory has no use for it. */
  virtual bool finds_best_logits() const { return false; }
  virtual void best_logits() {}
  /** Of the i-th row, after end_step() and until the next begin_step(). */
  virtual BestLogits best_row(int32_t) const { return {}; }
  /** Waits for the step's ops. OK, or the first failure since begin_step(). */
  virtual Result<void> end_step() = 0;
};

}  // namespace banter::ops
