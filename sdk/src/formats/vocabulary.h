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

/** kControl tokens are recognised in trusted text only; kUserDefined ones in any text; kUnused ones never occur. */
enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

enum class VocabularyModel : uint8_t {
  kByteLevelBpe,      // GPT-2 style: split patterns, byte alphabet, ranked merges
  kSentencePieceBpe,  // U+2581 spaces, score- or rank-ordered merges, byte fallback
};

struct VocabularyToken {
  std::string text;  // as stored: byte-level tokens in the GPT-2 byte alphabet, SentencePiece with U+2581
  float score = 0;
  TokenKind kind = TokenKind::kNormal;
  bool strip_left = false;  // special tokens that swallow adjacent white space
  bool strip_right = false;
  bool single_word = false;  // special tokens that count only where no word character is adjacent
  bool normalized = false;   // special tokens that are looked for after normalisation, in their normalised spelling
};

/** What becomes of the matches of a split pattern. Unmatched text between them always forms pieces of its own. */
enum class SplitBehavior : uint8_t { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

/** One stage of splitting text before BPE; each stage works on the pieces that the one before it made. */
struct SplitStage {
  std::string pattern;  // a regular expression as tokenizer.json files write it (Oniguruma's Ruby syntax)
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;            // matches and gaps change places
  bool literal = false;           // `pattern` is plain text, not an expression
  bool on_byte_alphabet = false;  // the stage sees the text spelled in the GPT-2 byte alphabet
};

enum class NormalizeKind : uint8_t { kNfc, kNfkc, kPrepend, kReplace };

/** One step of normalisation, applied to each stretch of text between special tokens. */
struct NormalizeStep {
  NormalizeKind kind = NormalizeKind::kNfc;
  std::string pattern;  // kReplace: what is replaced, plain text
  std::string content;  // kReplace: by what; kPrepend: put before the text unless that is empty
};

/** When a stretch of text gets a space (U+2581 in SentencePiece models) put before it. */
enum class SpacePrefix : uint8_t { kNever, kAlways, kUnlessPresent, kUnlessPresentAtStart };

struct Vocabulary {
  VocabularyModel model = VocabularyModel::kByteLevelBpe;
  std::vector<VocabularyToken> tokens;                      // index = id
  std::vector<std::pair<std::string, std::string>> merges;  // best rank first; empty: merge by score
  bool merge_by_score = false;  // SentencePiece models without merges: the higher score of the result goes first
  std::vector<SplitStage> splits;
  std::vector<NormalizeStep> normalizer;
  SpacePrefix space_prefix = SpacePrefix::kNever;  // after normalisation
  bool escape_spaces = false;                      // after normalisation: each space becomes U+2581
  bool drop_leading_space = false;                 // decoding drops one space at the start of a text
  bool ignore_merges = false;                      // a piece that is a token is taken whole
  bool byte_fallback = true;  // SentencePiece: a character without a token becomes its byte tokens where they exist
  bool fuse_unknown = true;   // SentencePiece: adjacent unknown characters share one unknown token
  bool add_bos = false, add_eos = false;
  int32_t bos = -1, eos = -1, unknown = -1, padding = -1, eot = -1;  // unknown -1: unknown characters are dropped
  std::vector<int32_t> begin, end;         // tokens around a whole text; both empty: bos and eos as add_* say
  std::vector<int32_t> end_of_generation;  // every token that ends a reply
};

/** From `tokenizer.ggml.*` metadata. Errors: UNSUPPORTED_TOKENIZER (names the model or pre-tokenizer), CORRUPT. */
Result<Vocabulary> vocabulary_from_gguf(const Gguf& file);

/** From a Hugging Face tokenizer.json (and, where given, tokenizer_config.json). Errors as above. */
Result<Vocabulary> vocabulary_from_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json = {});

}  // namespace banter::formats
