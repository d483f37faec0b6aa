#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "model/memory_info.h"
#include "model/tensor_plan.h"

namespace banter::model {

namespace {

constexpr uint64_t kReadPiece = uint64_t{8} << 20;  // between two questions whether to go on: 10 ms of a slow disk
constexpr size_t kVectorAlignment = 16;             // floats: 64 bytes

std::string gib(uint64_t bytes) {
  const uint64_t tenths = (bytes * 10 + (uint64_t{1} << 29)) >> 30;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

void plan_attention(TensorPlan& plan, const Hyperparameters& hp, const std::string& prefix, LayerWeights& layer) {
  const int64_t d = hp.embedding, q = hp.q_dim(), k = hp.kv_dim();
  if (hp.fused_qkv) {
    const std::string name = prefix + "attn_qkv.weight";
    plan.stacked(name, q + 2 * k, 0, q, d, layer.q);
    plan.stacked(name, q + 2 * k, q, k, d, layer.k);
    plan.stacked(name, q + 2 * k, q + k, k, d, layer.v);
  } else {
    plan.matrix(prefix + "attn_q.weight", q, d, ops::WeightUse::kLinear, layer.q);
    plan.matrix(prefix + "attn_k.weight", k, d, ops::WeightUse::kLinear, layer.k);
    plan.matrix(prefix + "attn_v.weight", k, d, ops::WeightUse::kLinear, layer.v);
    // Some Llama-like models have biases although the architecture does not ask for them.
    const auto bias = hp.qkv_bias ? &TensorPlan::vector : &TensorPlan::optional_vector;
    (plan.*bias)(prefix + "attn_q.bias", q, layer.q_bias);
    (plan.*bias)(prefix + "attn_k.bias", k, layer.k_bias);
    (plan.*bias)(prefix + "attn_v.bias", k, layer.v_bias);
  }
  plan.matrix(prefix + "attn_output.weight", d, q, ops::WeightUse::kLinear, layer.output);
  plan.optional_vector(prefix + "attn_output.bias", d, layer.output_bias);
  if (hp.qk_norm) {
    plan.vector(prefix + "attn_q_norm.weight", hp.head_dim, layer.q_norm);
    plan.vector(prefix + "attn_k_norm.weight", hp.head_dim, layer.k_norm);
  }
}

void plan_layer(TensorPlan& plan, const Hyperparameters& hp, const std::string& prefix, LayerWeights& layer) {
  const int64_t d = hp.embedding, f = hp.feed_forward;
  plan.vector(prefix + "attn_norm.weight", d, layer.attention_norm);
  plan_attention(plan, hp, prefix, layer);
  plan.vector(prefix + "ffn_norm.weight", d, layer.feed_forward_norm);
  if (hp.fused_gate_up) {
    plan.stacked(prefix + "ffn_up.weight", 2 * f, 0, f, d, layer.gate);
    plan.stacked(prefix + "ffn_up.weight", 2 * f, f, f, d, layer.up);
  } else {
    plan.matrix(prefix + "ffn_gate.weight", f, d, ops::WeightUse::kLinear, layer.gate);
    plan.matrix(prefix + "ffn_up.weight", f, d, ops::WeightUse::kLinear, layer.up);
  }
  plan.matrix(prefix + "ffn_down.weight", d, f, ops::WeightUse::kLinear, layer.down);
  if (hp.post_norms) {
    plan.vector(prefix + "post_attention_norm.weight", d, layer.post_attention_norm);
    plan.vector(prefix + "post_ffw_norm.weight", d, layer.post_feed_forward_norm);
  }
  plan.allow(prefix + "attn_rot_embd");  // written by old converters, derivable
  plan.allow(prefix + "attn_rot_embd.weight");
}

void plan_decoder(TensorPlan& plan, const Hyperparameters& hp, DecoderWeights& weights) {
  const bool tied = !plan.has("output.weight");
  plan.matrix("token_embd.weight", hp.vocabulary, hp.embedding,
              tied ? ops::WeightUse::kBoth : ops::WeightUse::kEmbedding, weights.embedding);
  weights.layers.resize(static_cast<size_t>(hp.layers));
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    plan_layer(plan, hp, "blk." + std::to_string(i) + ".", weights.layers[i]);
  }
  plan.vector("output_norm.weight", hp.embedding, weights.output_norm);
  if (!tied) plan.matrix("output.weight", hp.vocabulary, hp.embedding, ops::WeightUse::kLinear, weights.head);
  plan.allow("rope_freqs.weight");  // read with the hyper-parameters
  plan.allow("rope_factors_long.weight");
  plan.allow("rope_factors_short.weight");
}

// Weights take about what they take in the file.
Result<void> check_memory(const TensorPlan& plan, const ops::Backend& backend, uint64_t extra_bytes) {
  const bool is_host = backend.is_host_memory();
  uint64_t needed = extra_bytes;
  for (const MatrixPlan& matrix : plan.matrices()) needed += matrix.bytes();
  const std::optional<uint64_t> available = is_host ? available_memory() : backend.free_memory();
  if (!available || needed <= *available) return {};
  if (!is_host) {
    return Error{BANTER_ERROR_OUT_OF_MEMORY,
                 "the model needs about " + std::to_string((needed >> 20) + 1) +
                     " MiB of the graphics card's memory and " + std::to_string(*available >> 20) +
                     " MiB are free; use a smaller model or a stronger quantisation, or lower "
                     "the game's use of that memory"};
  }
  return Error{BANTER_ERROR_OUT_OF_MEMORY, "the model needs about " + gib(needed) + " of memory and " +
                                               gib(*available) +
                                               " are available; close other programs, or use a smaller model or a "
                                               "stronger quantisation"};
}

Error cancelled() {
  return Error{BANTER_ERROR_CANCELLED, "loading was cancelled"};
}

// The upload of all matrices: one at a time, counting bytes.
class Uploader {
 public:
  Uploader(const formats::Gguf& file, ops::Backend& backend, const LoadProgress& progress, uint64_t total_bytes)
      : file_(file), backend_(backend), progress_(progress), total_(std::max<uint64_t>(total_bytes, 1)) {}
  ~Uploader() { backend_.set_upload_progress({}); }
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  /** Returns the bytes that the backend holds for the weight. */
  Result<size_t> upload(const MatrixPlan& plan) {
    const Result<std::span<const std::byte>> data = read(plan);
    if (!data) return data.error();
    const uint64_t bytes = plan.bytes();
    backend_.set_upload_progress([&](float fraction) { return report(static_cast<double>(bytes) * fraction); });
    Result<std::unique_ptr<ops::Weight>> weight =
        backend_.upload(static_cast<formats::TensorType>(plan.tensor->type), static_cast<int64_t>(plan.rows),
                        static_cast<int64_t>(plan.cols), *data, plan.use);
    backend_.set_upload_progress({});
    if (!weight) {
      if (weight.error().code == BANTER_ERROR_CANCELLED) return weight.error();
      return Error{weight.error().code, "tensor " + plan.tensor->name + ": " + weight.error().message};
    }
    done_ += bytes;
    if (!report(0)) return cancelled();
    *plan.target = std::move(*weight);
    return (*plan.target)->bytes;
  }

 private:
  bool report(double within) {
    if (!progress_) return true;
    return progress_(
        static_cast<float>(std::min(1.0, (static_cast<double>(done_) + within) / static_cast<double>(total_))));
  }

  /** The plan's rows: a view of the mapping, or read piece by piece so that cancelling does not wait for a slow source. */
  Result<std::span<const std::byte>> read(const MatrixPlan& plan) {
    formats::GgufTensor part = *plan.tensor;
    part.offset += plan.first_row * plan.row_bytes();
    const uint64_t bytes = plan.bytes();
    part.bytes = std::min(bytes, kReadPiece);
    Result<std::span<const std::byte>> first = file_.read(part, piece_);
    if (!first) return first.error();
    if (bytes <= kReadPiece) return *first;
    const bool is_mapped = first->data() != piece_.data();
    if (is_mapped) {
      part.bytes = bytes;
      return file_.read(part, piece_);
    }
    if (whole_.size() < bytes) whole_.resize(static_cast<size_t>(bytes));
    uint64_t done = 0;
    while (true) {
      std::memcpy(whole_.data() + done, piece_.data(), static_cast<size_t>(part.bytes));
      done += part.bytes;
      if (done == bytes) return std::span<const std::byte>(whole_.data(), static_cast<size_t>(bytes));
      if (!report(0)) return cancelled();
      part.offset += part.bytes;
      part.bytes = std::min(bytes - done, kReadPiece);
      if (const auto next = file_.read(part, piece_); !next) return next.error();
    }
  }

  const formats::Gguf& file_;
  ops::Backend& backend_;
  const LoadProgress& progress_;
  uint64_t total_, done_ = 0;
  std::vector<std::byte> piece_, whole_;
};

Result<void> upload_vectors(const formats::Gguf& file, const TensorPlan& plan, ops::Backend& backend,
                            DecoderWeights& weights) {
  std::vector<float> host;
  std::vector<size_t> starts;
  std::vector<std::byte> scratch;
  for (const VectorPlan& vector : plan.vectors()) {
    const Result<std::span<const std::byte>> bytes = file.read(*vector.tensor, scratch);
    if (!bytes) return bytes.error();
    const size_t elements = static_cast<size_t>(vector.tensor->dims[0]);
    starts.push_back(host.size());
    host.resize((host.size() + elements + kVectorAlignment - 1) / kVectorAlignment * kVectorAlignment);
    formats::dequantize(static_cast<formats::TensorType>(vector.tensor->type), bytes->data(),
                        host.data() + starts.back(), elements);
  }
  const size_t bytes = host.size() * sizeof(float);
  Result<DeviceBuffer> buffer = DeviceBuffer::create(backend, bytes);
  if (!buffer) return buffer.error();
  if (Result<void> copied = backend.copy_from_host(buffer->data(), host.data(), bytes); !copied) return copied.error();
  weights.vectors = std::move(*buffer);
  weights.bytes += bytes;
  const float* device = static_cast<const float*>(weights.vectors.data());
  for (size_t i = 0; i < starts.size(); ++i) *plan.vectors()[i].target = device + starts[i];
  return {};
}

}  // namespace

Result<DeviceBuffer> DeviceBuffer::create(ops::Backend& backend, size_t bytes) {
  Result<void*> memory = backend.allocate(std::max<size_t>(bytes, 1));
  if (!memory) return memory.error();
  DeviceBuffer buffer;
  buffer.backend_ = &backend;
  buffer.data_ = *memory;
  return buffer;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) backend_->deallocate(data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : backend_(other.backend_), data_(std::exchange(other.data_, nullptr)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(backend_, other.backend_);
  std::swap(data_, other.data_);
  return *this;
}

Result<DecoderWeights> load_weights(const formats::Gguf& file, const Hyperparameters& hp, ops::Backend& backend,
                                    uint64_t extra_bytes, const LoadProgress& progress) {
  DecoderWeights weights;
  TensorPlan plan(file);
  plan_decoder(plan, hp, weights);
  if (Result<void> bound = plan.finish(); !bound) return bound.error();
  if (Result<void> fits = check_memory(plan, backend, extra_bytes); !fits) return fits.error();

  uint64_t total = 0;
  for (const MatrixPlan& matrix : plan.matrices()) total += matrix.bytes();
  if (progress && !progress(0.0f)) return cancelled();
  if (Result<void> done = upload_vectors(file, plan, backend, weights); !done) return done.error();
  Uploader uploader(file, backend, progress, total);
  for (const MatrixPlan& matrix : plan.matrices()) {
    Result<size_t> bytes = uploader.upload(matrix);
    if (!bytes) return bytes.error();
    weights.bytes += *bytes;
  }
  return weights;
}

}  // namespace banter::model
