// Vocabularies from Hugging Face's tokenizer.json. Each part that is not understood is refused by name: a tokenizer that
// is almost right makes a model that is almost right.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "formats/gguf_cursor.h"
#include "formats/split_patterns.h"
#include "formats/tokenizer_json_reader.h"
#include "formats/vocabulary.h"
#include "formats/vocabulary_specials.h"

namespace banter::formats {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";
constexpr int kMaxNesting = 8;

Error unsupported(std::string what) {
  return Error{BANTER_ERROR_UNSUPPORTED_TOKENIZER,
               "The tokenizer.json uses " + std::move(what) + ", which is not supported."};
}
Error corrupt(std::string what) {
  return Error{BANTER_ERROR_CORRUPT, "The tokenizer.json is damaged: " + std::move(what) + "."};
}

// Lenient access: a missing or null member, or one of another kind, gives the fallback.
const Json& member(const Json& object, const char* name) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}
std::string text(const Json& object, const char* name, std::string fallback = {}) {
  const Json& value = member(object, name);
  return value.is_string() ? value.get_ref<const std::string&>() : fallback;
}
bool flag(const Json& object, const char* name, bool fallback = false) {
  const Json& value = member(object, name);
  return value.is_boolean() ? value.get<bool>() : fallback;
}
std::string type_of(const Json& object) {
  return text(object, "type", "an object without a type");
}

// The parts of a normalizer, pre-tokenizer, … with Sequences taken apart.
Result<void> flatten(const Json& part, const char* list, std::vector<const Json*>& out, int depth = 0) {
  if (part.is_null()) return {};
  if (!part.is_object()) return corrupt(std::string("a part of its ") + list + " is no object");
  if (text(part, "type") != "Sequence") {
    out.push_back(&part);
    return {};
  }
  if (depth >= kMaxNesting) return unsupported("Sequences nested too deeply");
  const Json& parts = member(part, list);
  if (!parts.is_array()) return corrupt(std::string("a Sequence has no list of ") + list);
  for (const Json& inner : parts)
    if (Result<void> ok = flatten(inner, list, out, depth + 1); !ok) return ok;
  return {};
}

class Converter {
 public:
  Converter(TokenizerJson file, Json config) : file_(std::move(file)), config_(std::move(config)) {}

  Result<Vocabulary> convert() {
    for (Result<void> (Converter::*step)() :
         {&Converter::read_model, &Converter::read_added_tokens, &Converter::read_normalizer,
          &Converter::read_pre_tokenizer, &Converter::read_decoder, &Converter::read_post_processor,
          &Converter::read_config})
      if (Result<void> ok = (this->*step)(); !ok) return ok.error();
    complete_end_of_generation(vocabulary_);
    return std::move(vocabulary_);
  }

 private:
  const Json& part(const char* name) const { return member(file_.rest, name); }

  Result<void> read_model() {
    const Json& model = part("model");
    const std::string type = text(model, "type", file_.vocab_is_object ? "BPE" : "");
    if (type != "BPE") return unsupported("the model " + quote_for_message(type.empty() ? "(none)" : type));
    if (!file_.vocab_is_object) return corrupt("its model has no vocab");
    if (!member(model, "dropout").is_null() && member(model, "dropout") != 0) return unsupported("BPE dropout");
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text(model, affix).empty()) return unsupported(std::string("a BPE ") + affix);
    vocabulary_.ignore_merges = flag(model, "ignore_merges");
    vocabulary_.byte_fallback = flag(model, "byte_fallback");
    vocabulary_.fuse_unknown = flag(model, "fuse_unk");
    int64_t last = -1;
    for (const auto& [token, id] : file_.vocab) last = std::max(last, id);
    for (const Json& added : part("added_tokens"))
      if (member(added, "id").is_number_integer()) last = std::max(last, member(added, "id").get<int64_t>());
    const size_t known = file_.vocab.size() + part("added_tokens").size();
    // A few ids may be missing, but a small file must not make a huge table.
    if (last < 0 || static_cast<uint64_t>(last) > known * 2 + 65536) return corrupt("its token ids are far apart");
    vocabulary_.tokens.resize(static_cast<size_t>(last) + 1);
    for (VocabularyToken& token : vocabulary_.tokens) token.kind = TokenKind::kUnused;
    for (auto& [token, id] : file_.vocab) {
      VocabularyToken& entry = vocabulary_.tokens[static_cast<size_t>(id)];
      entry.kind = vocabulary_.byte_fallback && is_byte_spelling(token) ? TokenKind::kByte : TokenKind::kNormal;
      entry.text = std::move(token);
    }
    vocabulary_.merges = std::move(file_.merges);
    return {};
  }

  Result<void> read_added_tokens() {
    const Json& list = part("added_tokens");
    if (!list.is_array() && !list.is_null()) return corrupt("added_tokens is no list");
    for (const Json& added : list) {
      const Json& id = member(added, "id");
      std::string content = text(added, "content");
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || content.empty())
        return corrupt("an added token has no id or no content");
      VocabularyToken& token = vocabulary_.tokens[static_cast<size_t>(id.get<int64_t>())];
      token.text = std::move(content);
      token.kind = flag(added, "special") ? TokenKind::kControl : TokenKind::kUserDefined;
      token.strip_left = flag(added, "lstrip");
      token.strip_right = flag(added, "rstrip");
      token.single_word = flag(added, "single_word");
      token.normalized = flag(added, "normalized");
    }
    const std::string unknown = text(part("model"), "unk_token");
    if (unknown.empty()) return {};
    vocabulary_.unknown = find_token(vocabulary_, unknown);
    if (vocabulary_.unknown < 0)
      return corrupt("its unknown token " + quote_for_message(unknown) + " is not in the vocabulary");
    VocabularyToken& token = vocabulary_.tokens[static_cast<size_t>(vocabulary_.unknown)];
    if (token.kind == TokenKind::kControl) token.kind = TokenKind::kUnknown;
    return {};
  }

  Result<void> read_normalizer() {
    std::vector<const Json*> steps;
    if (Result<void> ok = flatten(part("normalizer"), "normalizers", steps); !ok) return ok;
    for (const Json* step : steps) {
      const std::string type = type_of(*step);
      if (type == "NFC") {
        vocabulary_.normalizer.push_back({NormalizeKind::kNfc, {}, {}});
      } else if (type == "NFKC") {
        vocabulary_.normalizer.push_back({NormalizeKind::kNfkc, {}, {}});
      } else if (type == "Prepend") {
        vocabulary_.normalizer.push_back({NormalizeKind::kPrepend, {}, text(*step, "prepend")});
      } else if (type == "Replace") {
        const Json& pattern = member(*step, "pattern");
        if (text(pattern, "String").empty()) return unsupported("a Replace normalizer with a regular expression");
        vocabulary_.normalizer.push_back({NormalizeKind::kReplace, text(pattern, "String"), text(*step, "content")});
      } else {
        return unsupported("the normalizer " + quote_for_message(type));
      }
    }
    return {};
  }

  Result<void> read_pre_tokenizer() {
    std::vector<const Json*> stages;
    if (Result<void> ok = flatten(part("pre_tokenizer"), "pretokenizers", stages); !ok) return ok;
    const bool byte_level =
        std::any_of(stages.begin(), stages.end(), [](const Json* s) { return text(*s, "type") == "ByteLevel"; });
    vocabulary_.model = byte_level ? VocabularyModel::kByteLevelBpe : VocabularyModel::kSentencePieceBpe;
    for (const Json* stage : stages)
      if (Result<void> ok = read_stage(*stage); !ok) return ok;
    return {};
  }

  void add_split(std::string pattern, SplitBehavior behavior = SplitBehavior::kIsolated, bool invert = false,
                 bool literal = false) {
    vocabulary_.splits.push_back({std::move(pattern), behavior, invert, literal, behind_byte_level_});
  }

  Result<void> read_stage(const Json& stage) {
    const std::string type = type_of(stage);
    if (type == "ByteLevel") return read_byte_level(stage);
    if (type == "Split") return read_split(stage);
    if (type == "Metaspace") return read_metaspace(stage);
    if (type == "Digits") {
      add_split("\\p{N}", flag(stage, "individual_digits") ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
    } else if (type == "Punctuation") {
      const Result<SplitBehavior> behavior = behavior_of(text(stage, "behavior", "Isolated"));
      if (!behavior) return behavior.error();
      add_split("[\\p{P}$+<=>^`|~]", *behavior);
    } else if (type == "WhitespaceSplit") {
      add_split("\\s", SplitBehavior::kRemoved);
    } else if (type == "Whitespace") {
      add_split("\\w+|[^\\w\\s]+", SplitBehavior::kRemoved, true);
    } else {
      return unsupported("the pre-tokenizer " + quote_for_message(type));
    }
    return {};
  }

  Result<void> read_byte_level(const Json& stage) {
    if (behind_byte_level_) return unsupported("a second ByteLevel pre-tokenizer");
    if (flag(stage, "add_prefix_space")) {
      if (!vocabulary_.splits.empty()) return unsupported("a ByteLevel pre-tokenizer that adds spaces behind a split");
      vocabulary_.space_prefix = SpacePrefix::kUnlessPresent;
    }
    if (flag(stage, "use_regex", true)) add_split(std::string(kGpt2Pattern));
    behind_byte_level_ = true;
    return {};
  }

  static Result<SplitBehavior> behavior_of(std::string name) {
    if (name == "Isolated") return SplitBehavior::kIsolated;
    if (name == "Removed") return SplitBehavior::kRemoved;
    if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
    if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
    if (name == "Contiguous") return SplitBehavior::kContiguous;
    return unsupported("the split behavior " + quote_for_message(name));
  }

  Result<void> read_split(const Json& stage) {
    const Result<SplitBehavior> behavior = behavior_of(text(stage, "behavior"));
    if (!behavior) return behavior.error();
    const Json& pattern = member(stage, "pattern");
    const bool literal = member(pattern, "String").is_string();
    std::string expression = text(pattern, literal ? "String" : "Regex");
    if (expression.empty()) return corrupt("a Split has no pattern");
    add_split(std::move(expression), *behavior, flag(stage, "invert"), literal);
    return {};
  }

  Result<void> read_metaspace(const Json& stage) {
    if (text(stage, "replacement", std::string(kSpaceSymbol)) != kSpaceSymbol)
      return unsupported("a Metaspace with a sign of its own");
    if (!vocabulary_.splits.empty() || behind_byte_level_) return unsupported("a Metaspace behind a split");
    // Older files say add_prefix_space instead of prepend_scheme.
    const std::string scheme =
        text(stage, "prepend_scheme", flag(stage, "add_prefix_space", true) ? "always" : "never");
    if (scheme == "always") {
      vocabulary_.space_prefix = SpacePrefix::kUnlessPresent;
    } else if (scheme == "first") {
      vocabulary_.space_prefix = SpacePrefix::kUnlessPresentAtStart;
    } else if (scheme != "never") {
      return unsupported("the Metaspace prepend_scheme " + quote_for_message(scheme));
    }
    vocabulary_.escape_spaces = true;
    if (flag(stage, "split", true)) add_split(std::string(kSpaceSymbol), SplitBehavior::kMergedWithNext, false, true);
    return {};
  }

  Result<void> read_decoder() {
    std::vector<const Json*> steps;
    if (Result<void> ok = flatten(part("decoder"), "decoders", steps); !ok) return ok;
    const bool byte_level = vocabulary_.model == VocabularyModel::kByteLevelBpe;
    for (const Json* step : steps) {
      const std::string type = type_of(*step);
      const bool fits = byte_level
                            ? type == "ByteLevel" || type == "Fuse"
                            : type == "ByteFallback" || type == "Fuse" ||
                                  (type == "Replace" && text(member(*step, "pattern"), "String") == kSpaceSymbol &&
                                   text(*step, "content") == " ");
      if (fits) continue;
      if (type == "Strip" && !byte_level && text(*step, "content") == " " && member(*step, "stop") == 0) {
        if (member(*step, "start") != 0 && member(*step, "start") != 1)
          return unsupported("a Strip decoder of several spaces");
        vocabulary_.drop_leading_space = member(*step, "start") == 1;
      } else if (type == "Metaspace" && !byte_level) {
        vocabulary_.drop_leading_space =
            text(*step, "prepend_scheme", flag(*step, "add_prefix_space", true) ? "always" : "never") != "never";
      } else {
        return unsupported("the decoder " + quote_for_message(type) +
                           (type == "Replace" ? " of another text than U+2581" : ""));
      }
    }
    return {};
  }

  Result<void> read_post_processor() {
    std::vector<const Json*> steps;
    if (Result<void> ok = flatten(part("post_processor"), "processors", steps); !ok) return ok;
    for (const Json* step : steps) {
      const std::string type = type_of(*step);
      if (type == "ByteLevel") continue;  // offsets only
      if (type != "TemplateProcessing") return unsupported("the post-processor " + quote_for_message(type));
      if (Result<void> ok = read_template(*step); !ok) return ok;
    }
    return {};
  }

  Result<void> read_template(const Json& step) {
    bool behind_text = false;
    for (const Json& item : member(step, "single")) {
      if (member(item, "Sequence").is_object()) {
        if (behind_text) return unsupported("a TemplateProcessing that repeats the text");
        behind_text = true;
        continue;
      }
      const std::string name = text(member(item, "SpecialToken"), "id");
      const Json& ids = member(member(member(step, "special_tokens"), name.c_str()), "ids");
      if (!ids.is_array()) return corrupt("its TemplateProcessing names a token without ids");
      for (const Json& id : ids) {
        if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocabulary_.tokens.size())
          return corrupt("its TemplateProcessing names a token that does not exist");
        (behind_text ? vocabulary_.end : vocabulary_.begin).push_back(static_cast<int32_t>(id.get<uint64_t>()));
      }
    }
    if (!behind_text) return corrupt("its TemplateProcessing does not hold the text");
    return {};
  }

  // A special token of tokenizer_config.json, as a string or as an object, to its id; -1 where there is none.
  int32_t configured(const char* name) const {
    const Json& value = member(config_, name);
    const std::string content = value.is_string() ? value.get_ref<const std::string&>() : text(value, "content");
    return content.empty() ? -1 : find_token(vocabulary_, content);
  }

  Result<void> read_config() {
    Vocabulary& v = vocabulary_;
    v.bos = configured("bos_token");
    v.eos = configured("eos_token");
    v.padding = configured("pad_token");
    if (v.bos < 0 && !config_.is_object() && !v.begin.empty()) v.bos = v.begin.front();
    if (v.eos < 0 && !v.end.empty()) v.eos = v.end.back();
    for (const char* usual : {"</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>",
                              "<\xEF\xBD\x9C"
                              "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"}) {
      if (v.eos >= 0) break;
      const int32_t id = find_token(v, usual);
      if (id >= 0 && v.tokens[static_cast<size_t>(id)].kind == TokenKind::kControl) v.eos = id;
    }
    v.add_bos = v.bos >= 0 && std::find(v.begin.begin(), v.begin.end(), v.bos) != v.begin.end();
    v.add_eos = v.eos >= 0 && std::find(v.end.begin(), v.end.end(), v.eos) != v.end.end();
    return {};
  }

  TokenizerJson file_;
  Json config_;
  Vocabulary vocabulary_;
  bool behind_byte_level_ = false;  // later split stages see the byte alphabet
};

}  // namespace

Result<Vocabulary> vocabulary_from_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json) {
  Result<TokenizerJson> file = read_tokenizer_json(tokenizer_json);
  if (!file) return file.error();
  Json config;
  if (!tokenizer_config_json.empty()) {
    Result<Json> parsed = parse_json(tokenizer_config_json, "tokenizer_config.json");
    if (!parsed) return parsed.error();
    config = std::move(*parsed);
  }
  return Converter(std::move(*file), std::move(config)).convert();
}

}  // namespace banter::formats
