#include "model/fingerprint.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/hash.h"

namespace banter::model {
namespace {

constexpr uint64_t kSampleBytes = 64;
constexpr uint64_t kSamples = 4;  // evenly spread over a tensor

uint64_t hash_of(const Hyperparameters& hp) {
  Hash64 hash;
  const auto add = [&](auto value) { hash.add(static_cast<uint64_t>(value)); };
  const auto add_float = [&](float value) { hash.add(uint64_t{std::bit_cast<uint32_t>(value)}); };
  for (const int32_t n : {hp.vocabulary, hp.embedding, hp.layers, hp.heads, hp.kv_heads, hp.head_dim, hp.feed_forward,
                          hp.trained_context}) {
    add(n);
  }
  for (const float x :
       {hp.norm_epsilon, hp.embedding_scale, hp.attention_scale, hp.attention_softcap, hp.logit_softcap}) {
    add_float(x);
  }
  add(hp.activation);
  for (const bool b : {hp.qkv_bias, hp.qk_norm, hp.post_norms, hp.fused_qkv, hp.fused_gate_up}) add(b);
  for (const ops::RopeSpec& rope : hp.ropes) {
    for (const double f : rope.inverse_frequency) hash.add(std::bit_cast<uint64_t>(f));
    add_float(rope.magnitude);
    add(rope.adjacent_pairs);
  }
  for (const LayerKind& layer : hp.layer_kinds) {
    add(layer.window);
    add(layer.rope);
    add(layer.kv_group);
    add(layer.kv_layer);
  }
  return hash.value();
}

uint64_t hash_of(const formats::Vocabulary& vocabulary) {
  Hash64 hash;
  for (const formats::VocabularyToken& token : vocabulary.tokens) {
    hash.add(token.text);
    hash.add(static_cast<uint64_t>(token.kind));
  }
  return hash.value();
}

Result<uint64_t> hash_of_weights(const formats::Gguf& file) {
  Hash64 hash;
  std::array<std::byte, kSampleBytes> sample;
  for (const formats::GgufTensor& tensor : file.tensors()) {
    hash.add(tensor.name);
    hash.add(uint64_t{tensor.type});
    for (const uint64_t dim : tensor.dims) hash.add(dim);
    const uint64_t size = std::min(kSampleBytes, tensor.bytes);
    for (uint64_t i = 0; i < kSamples && size > 0; ++i) {
      const uint64_t offset = (tensor.bytes - size) / (kSamples - 1) * i;
      const std::span<std::byte> out = std::span(sample).first(static_cast<size_t>(size));
      if (Result<void> read = file.read_part(tensor, offset, out); !read) return read.error();
      hash.add(std::span<const std::byte>(out));
    }
  }
  return hash.value();
}

}  // namespace

Result<Fingerprint> fingerprint_of(const formats::Gguf& file, const Model& model) {
  const auto weights = hash_of_weights(file);
  if (!weights) return weights.error();
  Fingerprint out;
  out.architecture = model.hyperparameters().architecture;
  out.name = model.display_name();
  out.hyperparameters = hash_of(model.hyperparameters());
  out.vocabulary = hash_of(model.tokenizer().vocabulary());
  out.weights = *weights;
  return out;
}

}  // namespace banter::model
