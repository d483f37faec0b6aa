// A tokenizer's data, whatever file it came from: the neutral form between GGUF metadata or tokenizer.json and text/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"

namespace banter::formats {

enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

enum class VocabularyModel : uint8_t {
  kByteLevelBpe,      // GPT-2 style: split patterns, byte alphabet, ranked merges
  kSentencePieceBpe,  // U+2581 spaces, score- or rank-ordered merges, byte fallback
};

struct VocabularyToken {
  std::string text;  // as stored: byte-level tokens in the GPT-2 byte alphabet, SentencePiece with U+2581
  float score = 0;
  TokenKind kind = TokenKind::kNormal;
  bool strip_left = false;   // special tokens that swallow adjacent white space
  bool strip_right = false;
};

/** One stage of splitting text before BPE: a PCRE2 pattern whose matches become pieces. */
struct SplitStage {
  std::string pattern;
  bool keep_gaps = true;  // unmatched text stays as pieces of its own
};

struct Vocabulary {
  VocabularyModel model = VocabularyModel::kByteLevelBpe;
  std::vector<VocabularyToken> tokens;                            // index = id
  std::vector<std::pair<std::string, std::string>> merges;       // best rank first; empty: merge by score
  std::vector<SplitStage> splits;
  std::string normalizer;          // "", "nfc", "nfkc"
  bool ignore_merges = false;      // a piece that is a token is taken whole
  bool add_space_prefix = false;   // SentencePiece: a space before the first fragment
  bool add_bos = false, add_eos = false;
  int32_t bos = -1, eos = -1, unknown = -1, padding = -1, eot = -1;
  std::vector<int32_t> end_of_generation;   // every token that ends a reply
};

/** From `tokenizer.ggml.*` metadata. Errors: UNSUPPORTED_TOKENIZER (names the model or pre-tokenizer), CORRUPT. */
Result<Vocabulary> vocabulary_from_gguf(const Gguf& file);

/** From a Hugging Face tokenizer.json (and, where given, tokenizer_config.json). Errors as above. */
Result<Vocabulary> vocabulary_from_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json = {});

}  // namespace banter::formats
