// Vocabularies from GGUF's `tokenizer.ggml.*` metadata.
#include <algorithm>
#include <cctype>
#include <utility>

#include "formats/gguf_cursor.h"
#include "formats/split_patterns.h"
#include "formats/vocabulary.h"
#include "formats/vocabulary_specials.h"

namespace banter::formats {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

Error corrupt(std::string what) {
  return Error{BANTER_ERROR_CORRUPT, "The model's tokenizer is damaged: " + std::move(what) + "."};
}

class Reader {
 public:
  explicit Reader(const Gguf& file) : file_(file) {}

  Result<Vocabulary> read() {
    const std::string* model = string("model");
    if (model == nullptr)
      return Error{BANTER_ERROR_UNSUPPORTED_TOKENIZER,
                   "The model file has no tokenizer (tokenizer.ggml.model is missing)."};
    if (*model != "gpt2" && *model != "llama")
      return Error{BANTER_ERROR_UNSUPPORTED_TOKENIZER, "The model uses the tokenizer " + quote_for_message(*model) +
                                                           "; supported are \"gpt2\" and \"llama\"."};
    const bool byte_level = *model == "gpt2";
    vocabulary_.model = byte_level ? VocabularyModel::kByteLevelBpe : VocabularyModel::kSentencePieceBpe;
    if (Result<void> ok = read_tokens(); !ok) return ok.error();
    if (Result<void> ok = byte_level ? read_byte_level() : read_sentence_piece(); !ok) return ok.error();
    read_special_ids(byte_level);
    complete_end_of_generation(vocabulary_);
    if (is_phi3()) strip_behind_specials();
    return std::move(vocabulary_);
  }

 private:
  static std::string key(std::string_view name) { return std::string(kPrefix).append(name); }
  const std::string* string(std::string_view name) const { return file_.get_string(key(name)); }

  template <class T>
  const std::vector<T>* array(std::string_view name) const {
    const GgufArray* values = file_.get_array(key(name));
    return values == nullptr ? nullptr : std::get_if<std::vector<T>>(values);
  }

  Result<void> read_tokens() {
    const auto* texts = array<std::string>("tokens");
    if (texts == nullptr || texts->empty()) return corrupt("tokenizer.ggml.tokens is missing or no list of strings");
    vocabulary_.tokens.resize(texts->size());
    for (size_t i = 0; i < texts->size(); ++i) vocabulary_.tokens[i].text = (*texts)[i];
    if (file_.find(key("scores")) != nullptr && !copy_numbers("scores", [&](size_t i, double score) {
          vocabulary_.tokens[i].score = static_cast<float>(score);
        }))
      return corrupt("tokenizer.ggml.scores is no list of one number per token");
    if (file_.find(key("token_type")) != nullptr &&
        !copy_numbers("token_type", [&](size_t i, double type) { vocabulary_.tokens[i].kind = kind_of(type); }))
      return corrupt("tokenizer.ggml.token_type is no list of one number per token");
    return {};
  }

  // Calls put(i, value) for the first value per token; false where there are fewer, or no numbers.
  template <class Put>
  bool copy_numbers(std::string_view name, Put&& put) const {
    const GgufArray* values = file_.get_array(key(name));
    if (values == nullptr) return false;
    return std::visit(
        [&](const auto& list) {
          using Value = typename std::decay_t<decltype(list)>::value_type;
          if constexpr (std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>) {
            if (list.size() < vocabulary_.tokens.size()) return false;
            for (size_t i = 0; i < vocabulary_.tokens.size(); ++i) put(i, static_cast<double>(list[i]));
            return true;
          } else {
            return false;
          }
        },
        *values);
  }

  static TokenKind kind_of(double type) {
    if (type == 2) return TokenKind::kUnknown;
    if (type == 3) return TokenKind::kControl;
    if (type == 4) return TokenKind::kUserDefined;
    if (type == 5) return TokenKind::kUnused;
    if (type == 6) return TokenKind::kByte;
    return TokenKind::kNormal;
  }

  Result<void> read_byte_level() {
    const auto* merges = array<std::string>("merges");
    if (merges == nullptr) return corrupt("tokenizer.ggml.merges is missing or no list of strings");
    vocabulary_.merges.reserve(merges->size());
    for (const std::string& merge : *merges) {
      // The first character may itself be a space.
      const size_t space = merge.find(' ', 1);
      if (space == std::string::npos) return corrupt("the merge " + quote_for_message(merge) + " has no two parts");
      vocabulary_.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
    }
    const std::string* named = string("pre");
    std::string name = named == nullptr || named->empty() ? "default" : *named;
    const std::string* architecture = file_.get_string("general.architecture");
    const bool neox = named == nullptr && architecture != nullptr && *architecture == "gptneox";
    if (neox) name = "olmo";  // files of GPT-NeoX are older than the key; OLMo took its tokenizer over
    PreTokenizer pre;
    if (!find_pre_tokenizer(name, pre))
      return Error{BANTER_ERROR_UNSUPPORTED_TOKENIZER, "The model uses the pre-tokenizer " + quote_for_message(name) +
                                                           ", which this version does not know; a newer one may."};
    vocabulary_.splits = std::move(pre.splits);
    if (pre.nfc) vocabulary_.normalizer.push_back({NormalizeKind::kNfc, {}, {}});
    vocabulary_.ignore_merges = pre.ignore_merges;
    vocabulary_.add_bos = pre.add_bos;
    return {};
  }

  Result<void> read_sentence_piece() {
    if (file_.find(key("scores")) == nullptr) return corrupt("tokenizer.ggml.scores is missing");
    // Byte tokens must not be spelled by text, even where the file does not mark them.
    for (VocabularyToken& token : vocabulary_.tokens)
      if (token.kind == TokenKind::kNormal && is_byte_spelling(token.text)) token.kind = TokenKind::kByte;
    vocabulary_.merge_by_score = true;
    vocabulary_.escape_spaces = true;
    vocabulary_.add_bos = true;
    const bool prefix = file_.get_bool(key("add_space_prefix")).value_or(true);
    vocabulary_.space_prefix = prefix ? SpacePrefix::kAlways : SpacePrefix::kNever;
    vocabulary_.drop_leading_space = prefix;
    return {};
  }

  // A special token's id: the file's, else `usual` where that is a special token; -1 = none.
  int32_t special_id(std::string_view name, int64_t usual) const {
    const size_t count = vocabulary_.tokens.size();
    const std::string full = key(name);
    if (file_.find(full) != nullptr) {
      // Converters write 2^32 - 1, or -1, for "none"; other ids out of range are as meaningless.
      const std::optional<uint64_t> value = file_.get_uint(full);
      return value && *value < count ? static_cast<int32_t>(*value) : -1;
    }
    if (usual < 0 || static_cast<uint64_t>(usual) >= count) return -1;
    const TokenKind kind = vocabulary_.tokens[static_cast<size_t>(usual)].kind;
    return kind == TokenKind::kControl || kind == TokenKind::kUnknown ? static_cast<int32_t>(usual) : -1;
  }

  void read_special_ids(bool byte_level) {
    Vocabulary& v = vocabulary_;
    v.bos = special_id("bos_token_id", byte_level ? 11 : 1);
    v.eos = special_id("eos_token_id", byte_level ? 11 : 2);
    v.unknown = special_id("unknown_token_id", byte_level ? -1 : 0);
    v.padding = special_id("padding_token_id", -1);
    v.eot = special_id("eot_token_id", -1);
    for (const std::string_view name : {"eom_token_id", "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"})
      if (const int32_t id = special_id(name, -1); id >= 0) v.end_of_generation.push_back(id);
    v.add_bos = file_.get_bool(key("add_bos_token")).value_or(v.add_bos);
    v.add_eos = file_.get_bool(key("add_eos_token")).value_or(v.add_eos);
  }

  // GGUF does not carry the strip flags. Phi-3 is the one family whose special tokens need them.
  bool is_phi3() const {
    const std::string* architecture = file_.get_string("general.architecture");
    if (architecture != nullptr && *architecture == "phi3" && vocabulary_.model == VocabularyModel::kSentencePieceBpe)
      return true;
    const std::string* name = file_.get_string("general.name");
    if (name == nullptr) return false;
    std::string lower = *name;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return lower.find("phi-3") != std::string::npos || lower.find("phi3") != std::string::npos;
  }

  void strip_behind_specials() {
    for (VocabularyToken& token : vocabulary_.tokens) {
      if (token.kind != TokenKind::kControl && token.kind != TokenKind::kUserDefined &&
          token.kind != TokenKind::kUnknown)
        continue;
      token.strip_right = token.text != "<unk>" && token.text != "<s>" && token.text != "<|endoftext|>";
    }
  }

  const Gguf& file_;
  Vocabulary vocabulary_;
};

}  // namespace

Result<Vocabulary> vocabulary_from_gguf(const Gguf& file) {
  return Reader(file).read();
}

}  // namespace banter::formats
