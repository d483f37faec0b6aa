#include "engine/tiny_model.h"

#include <limits>

#include "support/gguf_writer.h"
#include "text/utf8.h"

namespace banter::test {
namespace {

constexpr const char* kChatMl =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

void write_vocabulary(GgufWriter& writer, const TinyModelOptions& options) {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    std::string spelling;
    text::utf8_append(text::byte_alphabet_code_point(static_cast<uint8_t>(byte)), spelling);
    tokens.push_back(spelling);
    types.push_back(1);
  }
  const auto add = [&](const char* spelling, int32_t type) {
    tokens.emplace_back(spelling);
    types.push_back(type);
  };
  add("<|endoftext|>", 3);
  add(options.has_chatml_tokens ? "<|im_start|>" : "<|other_start|>", 3);
  add(options.has_chatml_tokens ? "<|im_end|>" : "<|other_end|>", 3);
  add(options.has_thinking_tokens ? "<think>" : "<unused>", options.has_thinking_tokens ? 3 : 5);
  add("th", 1);
  add("the", 1);
  add("\xC4\xA0the", 1);  // " the"
  add(options.has_thinking_tokens ? "</think>" : "he", options.has_thinking_tokens ? 4 : 1);
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_string("tokenizer.ggml.pre", "qwen2");
  writer.set_strings("tokenizer.ggml.tokens", tokens);
  writer.set_i32s("tokenizer.ggml.token_type", types);
  std::vector<std::string> merges = {"t h", "th e", "\xC4\xA0 the"};
  if (!options.has_thinking_tokens) merges.emplace_back("h e");
  writer.set_strings("tokenizer.ggml.merges", merges);
  writer.set_u32("tokenizer.ggml.eos_token_id", options.has_chatml_tokens ? kTinyEnd : kTinyEndOfText);
  writer.set_bool("tokenizer.ggml.add_bos_token", false);
  if (options.chat_template == "chatml") {
    writer.set_string("tokenizer.chat_template", kChatMl);
  } else if (!options.chat_template.empty()) {
    writer.set_string("tokenizer.chat_template", options.chat_template);
  }
}

}  // namespace

std::vector<std::byte> tiny_model(const TinyModelOptions& options) {
  constexpr auto kF32 = formats::TensorType::kF32;
  constexpr uint64_t kHeadDim = 16;
  const uint64_t width = options.embedding, heads = width / kHeadDim, kv_width = width / 2, wide = width * 2;
  GgufWriter writer;
  writer.set_string("general.architecture", "llama");
  writer.set_string("general.name", "Tiny");
  writer.set_u32("llama.context_length", options.context);
  writer.set_u32("llama.embedding_length", options.embedding);
  writer.set_u32("llama.block_count", options.layers);
  writer.set_u32("llama.feed_forward_length", static_cast<uint32_t>(wide));
  writer.set_u32("llama.attention.head_count", static_cast<uint32_t>(heads));
  writer.set_u32("llama.attention.head_count_kv", static_cast<uint32_t>(heads / 2));
  writer.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.set_f32("llama.rope.freq_base", options.rope_base);
  if (options.window != 0) writer.set_u32("llama.attention.sliding_window", options.window);
  write_vocabulary(writer, options);

  uint64_t seed = options.seed * 1000;
  const std::vector<float> ones(width, 1.0f);
  std::vector<float> key_bias(kv_width, 0.0f);  // adjacent pairs, the last of a head the slowest
  for (size_t i = kHeadDim - 1; i < kv_width; i += kHeadDim) key_bias[i] = options.key_bias;
  const auto matrix = [&](const std::string& name, uint64_t in, uint64_t out, float deviation) {
    writer.add_random(name, {in, out}, kF32, ++seed, deviation);
  };
  matrix("token_embd.weight", width, kTinyVocabulary, 0.8f);
  for (uint32_t layer = 0; layer < options.layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    writer.add_tensor(block + "attn_norm.weight", {width}, kF32, ones);
    matrix(block + "attn_q.weight", width, width, 0.25f);
    matrix(block + "attn_k.weight", width, kv_width, 0.25f);
    matrix(block + "attn_v.weight", width, kv_width, 0.25f);
    if (options.key_bias != 0) writer.add_tensor(block + "attn_k.bias", {kv_width}, kF32, key_bias);
    matrix(block + "attn_output.weight", width, width, 0.25f);
    writer.add_tensor(block + "ffn_norm.weight", {width}, kF32, ones);
    matrix(block + "ffn_gate.weight", width, wide, 0.2f);
    matrix(block + "ffn_up.weight", width, wide, 0.2f);
    matrix(block + "ffn_down.weight", wide, width, 0.2f);
  }
  writer.add_tensor("output_norm.weight", {width}, kF32, ones);
  if (options.broken_weights) {
    const std::vector<float> nothing(width * kTinyVocabulary, std::numeric_limits<float>::quiet_NaN());
    writer.add_tensor("output.weight", {width, kTinyVocabulary}, kF32, nothing);
  } else {
    matrix("output.weight", width, kTinyVocabulary, 0.3f);
  }
  return writer.bytes();
}

}  // namespace banter::test
