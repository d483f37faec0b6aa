// A small random model with a byte-level vocabulary, so that the engine's tests need no download.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace banter::test {

struct TinyModelOptions {
  std::string chat_template = "chatml";  // "chatml", "" = none, else Jinja text
  bool has_chatml_tokens = true;
  bool has_thinking_tokens = false;  // "<think>" and "</think>" in place of kTinyUnused and "he"
  uint32_t context = 1024;
  uint32_t layers = 2;
  uint32_t embedding = 64;  // a multiple of 64
  uint32_t window = 0;      // sliding window of every layer
  uint64_t seed = 1;
  float rope_base = 10000;
  float key_bias = 0;           // in the pair of every head that turns slowest; 0: no biases
  bool broken_weights = false;  // not-a-number in the output matrix
};

/** Ids of the tiny vocabulary: bytes 0 to 255 in order, then these. */
inline constexpr int32_t kTinyEndOfText = 256, kTinyStart = 257, kTinyEnd = 258, kTinyUnused = 259, kTinyThe = 261;
inline constexpr int32_t kTinyThink = 259, kTinyThinkEnd = 263;
inline constexpr int32_t kTinyVocabulary = 264;

/** The GGUF file. */
std::vector<std::byte> tiny_model(const TinyModelOptions& options = {});

}  // namespace banter::test
