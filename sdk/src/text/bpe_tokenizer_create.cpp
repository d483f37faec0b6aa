// Building a BpeTokenizer's tables from a vocabulary, which may come from a hostile file.
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "formats/gguf_cursor.h"
#include "text/bpe_tokenizer.h"
#include "text/special_spelling.h"
#include "text/utf8.h"

namespace banter::text {

using formats::quote_for_message;
using formats::TokenKind;
using formats::Vocabulary;
using formats::VocabularyModel;
using formats::VocabularyToken;

namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr size_t kMaxMerges = size_t{1} << 25;
constexpr size_t kMaxTokenBytes = size_t{1} << 30;  // all together

Error corrupt(std::string what) {
  return Error{BANTER_ERROR_CORRUPT, "The tokenizer is damaged: " + std::move(what) + "."};
}

// The byte of a "<0xHH>" token, or -1.
int byte_of_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

// Spells out a byte-level token; false where a character is not of the byte alphabet (its UTF-8 is copied then).
bool append_alphabet_bytes(std::string_view text, std::string& out) {
  bool all = true;
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    const int byte = step.status == Utf8Status::kOk ? byte_of_alphabet(step.code_point) : -1;
    if (byte >= 0) {
      out.push_back(static_cast<char>(byte));
    } else {
      out.append(text.substr(0, step.size));
      all = false;
    }
    text.remove_prefix(step.size);
  }
  return all;
}

void append_unescaped(std::string_view text, std::string& out) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(kSpaceSymbol, at), text.size());
    out.append(text.substr(at, end - at));
    if (end < text.size()) out.push_back(' ');
    at = end + kSpaceSymbol.size();
  }
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(formats::Vocabulary vocabulary) {
  return BpeTokenizer::create(std::move(vocabulary));
}

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::create(Vocabulary vocabulary) {
  std::unique_ptr<BpeTokenizer> tokenizer(new BpeTokenizer(std::move(vocabulary)));
  if (Result<void> ok = tokenizer->check_ids(); !ok) return ok.error();
  tokenizer->mark_protected();
  if (Result<void> ok = tokenizer->build_bytes(); !ok) return ok.error();
  if (Result<void> ok = tokenizer->build_index(); !ok) return ok.error();
  if (Result<void> ok = tokenizer->build_merges(); !ok) return ok.error();
  if (Result<void> ok = tokenizer->build_specials(); !ok) return ok.error();
  Result<Splitter> splitter = Splitter::create(tokenizer->vocabulary_.splits);
  if (!splitter) return splitter.error();
  tokenizer->splitter_ = std::move(*splitter);
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

Result<void> BpeTokenizer::check_ids() const {
  const Vocabulary& v = vocabulary_;
  if (v.tokens.empty() || v.tokens.size() > kMaxTokens)
    return corrupt("it has " + std::to_string(v.tokens.size()) + " tokens, and must have 1 to 16777216");
  if (v.merges.size() > kMaxMerges) return corrupt("it has more than 33554432 merges");
  for (const int32_t id : {v.bos, v.eos, v.unknown, v.padding, v.eot})
    if (id >= 0 && !valid(id))
      return corrupt("it names the special token " + std::to_string(id) + ", which it does not have");
  for (const auto* ids : {&v.begin, &v.end, &v.end_of_generation})
    for (const int32_t id : *ids)
      if (!valid(id)) return corrupt("it names the special token " + std::to_string(id) + ", which it does not have");
  return {};
}

void BpeTokenizer::mark_protected() {
  const Vocabulary& v = vocabulary_;
  protected_.resize(v.tokens.size());
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    const VocabularyToken& token = v.tokens[i];
    protected_[i] = token.kind == TokenKind::kControl || token.kind == TokenKind::kUnknown ||
                    (token.kind == TokenKind::kUserDefined && is_structural_spelling(token.text));
  }
  const auto protect = [&](int32_t id) {
    if (id >= 0) protected_[static_cast<size_t>(id)] = true;
  };
  for (const auto* ids : {&v.begin, &v.end, &v.end_of_generation})
    for (const int32_t id : *ids) protect(id);
  for (const int32_t id : {v.bos, v.eos, v.padding, v.eot}) protect(id);
}

Result<void> BpeTokenizer::build_bytes() {
  size_t total = 0;
  for (const VocabularyToken& token : vocabulary_.tokens) total += token.text.size();
  if (total > kMaxTokenBytes) return corrupt("its tokens hold more than a gibibyte of text");
  bytes_.reserve(total);
  byte_offsets_.reserve(vocabulary_.tokens.size() + 1);
  byte_offsets_.push_back(0);
  byte_tokens_.fill(-1);
  for (size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
    const VocabularyToken& token = vocabulary_.tokens[i];
    const auto id = static_cast<int32_t>(i);
    const int byte = token.kind == TokenKind::kByte ? byte_of_token(token.text) : -1;
    if (token.kind == TokenKind::kByte && byte < 0)
      return corrupt("token " + std::to_string(i) + " stands for a byte but is not spelled <0xHH>");
    if (byte >= 0) {
      bytes_.push_back(static_cast<char>(byte));
      if (byte_tokens_[static_cast<size_t>(byte)] < 0) byte_tokens_[static_cast<size_t>(byte)] = id;
    } else if (vocabulary_.model == VocabularyModel::kSentencePieceBpe) {
      append_unescaped(token.text, bytes_);
    } else if (token.kind == TokenKind::kNormal) {
      const size_t begin = bytes_.size();
      const bool regular = append_alphabet_bytes(token.text, bytes_);
      if (regular && bytes_.size() == begin + 1) {
        int32_t& known = byte_tokens_[static_cast<uint8_t>(bytes_[begin])];
        if (known < 0) known = id;
      }
    } else {
      bytes_.append(token.text);
    }
    byte_offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  return {};
}

Result<void> BpeTokenizer::build_index() {
  const auto& tokens = vocabulary_.tokens;
  const auto stored_text = [&](int32_t id) { return std::string_view(tokens[static_cast<size_t>(id)].text); };
  stored_.reserve(tokens.size());
  pieces_.reserve(tokens.size());
  const bool byte_level = vocabulary_.model == VocabularyModel::kByteLevelBpe;
  std::string spelled;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (tokens[i].text.empty()) continue;
    stored_.insert(id, stored_text);
    if (protected_[i]) continue;
    if (byte_level) {
      spelled.clear();
      if (tokens[i].kind != TokenKind::kNormal || !append_alphabet_bytes(tokens[i].text, spelled)) continue;
    } else if (tokens[i].kind != TokenKind::kNormal && tokens[i].kind != TokenKind::kUserDefined) {
      continue;
    }
    pieces_.insert(id, [&](int32_t other) { return piece_text(other); });
    max_piece_bytes_ = std::max(max_piece_bytes_, static_cast<uint32_t>(piece_text(id).size()));
  }
  whole_ = std::make_unique<std::atomic<uint8_t>[]>(tokens.size());
  ascii_tokens_.fill(-1);
  if (byte_level) return {};
  for (size_t c = 0; c < ascii_tokens_.size(); ++c) {
    const char byte = static_cast<char>(c);
    ascii_tokens_[c] = find_piece(std::string_view(&byte, 1));
  }
  // Which characters meet inside tokens: everywhere else a long piece may be cut. Not where unknown characters vanish
  // and let their neighbours meet.
  split_words_ = vocabulary_.unknown >= 0 || vocabulary_.merge_by_score;
  for (size_t i = 0; i < tokens.size() && split_words_; ++i) {
    if (tokens[i].kind != TokenKind::kNormal && tokens[i].kind != TokenKind::kUserDefined) continue;
    const std::string& text = tokens[i].text;
    for (size_t at = 1; at < text.size(); ++at)
      if ((static_cast<uint8_t>(text[at]) & 0xC0) != 0x80)
        joints_[static_cast<size_t>(static_cast<uint8_t>(text[at - 1])) << 8 | static_cast<uint8_t>(text[at])] = true;
  }
  return {};
}

Result<void> BpeTokenizer::build_merges() {
  const auto& tokens = vocabulary_.tokens;
  if (vocabulary_.merge_by_score) {
    score_ranks_.resize(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      // Orders floats as integers, the highest score first; not-a-number comes last.
      const float score = std::isnan(tokens[i].score) ? -INFINITY : tokens[i].score + 0.0f;
      const auto bits = std::bit_cast<uint32_t>(score);
      score_ranks_[i] = ~((bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u);
    }
    return {};
  }
  merges_.reserve(vocabulary_.merges.size());
  std::string joined;
  for (size_t i = 0; i < vocabulary_.merges.size(); ++i) {
    const auto& [left, right] = vocabulary_.merges[i];
    joined.assign(left).append(right);
    const TokenId parts[3] = {find(left), find(right), find(joined)};
    if (parts[0] < 0 || parts[1] < 0 || parts[2] < 0)
      return corrupt("merge " + std::to_string(i) + " (" + quote_for_message(left) + ", " + quote_for_message(right) +
                     ") names a token that the vocabulary does not have");
    // Merging must never make a control token or a byte token out of text.
    const TokenKind kind_of_result = kind(parts[2]);
    const bool text = kind_of_result == TokenKind::kNormal || kind_of_result == TokenKind::kUserDefined;
    if (text && !protected_[static_cast<size_t>(parts[2])])
      merges_.insert(parts[0], parts[1], {static_cast<uint32_t>(i), parts[2]});
  }
  // They served their purpose, and take tens of megabytes.
  vocabulary_.merges.clear();
  vocabulary_.merges.shrink_to_fit();
  return {};
}

Result<void> BpeTokenizer::build_specials() {
  const auto& tokens = vocabulary_.tokens;
  std::vector<SpecialMatcher::Entry> raw, normalized;
  std::vector<std::string> spellings;  // of normalized ones; reserved, so views stay valid
  spellings.reserve(static_cast<size_t>(
      std::count_if(tokens.begin(), tokens.end(), [](const VocabularyToken& token) { return token.normalized; })));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const VocabularyToken& token = tokens[i];
    const bool special =
        token.kind == TokenKind::kControl || token.kind == TokenKind::kUserDefined || token.kind == TokenKind::kUnknown;
    if (!special || token.text.empty()) continue;
    if (token.text.size() > SpecialMatcher::kMaxSpecialBytes)
      return corrupt("the special token " + std::to_string(i) + " is longer than 1024 bytes");
    if (!utf8_is_valid(token.text)) continue;  // no text can spell it
    if (!token.normalized) {
      raw.push_back({token.text, static_cast<int32_t>(i)});
      continue;
    }
    spellings.push_back(normalizer_.apply(token.text));
    if (!spellings.back().empty()) normalized.push_back({spellings.back(), static_cast<int32_t>(i)});
  }
  raw_specials_ = SpecialMatcher(raw);
  normalized_specials_ = SpecialMatcher(normalized);
  return {};
}

}  // namespace banter::text
