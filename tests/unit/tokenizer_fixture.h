// Small vocabularies for tokenizer tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "formats/vocabulary.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace banter::test {

using formats::TokenKind;
using formats::Vocabulary;
using formats::VocabularyModel;
using text::TokenId;
using text::Tokenizer;

inline const std::string kQwenPattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!"
    "\\S)|\\s+";

/** A token's text in the GPT-2 byte alphabet. */
inline std::string in_byte_alphabet(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) text::utf8_append(text::byte_alphabet_code_point(static_cast<uint8_t>(byte)), out);
  return out;
}

inline TokenId add_token(Vocabulary& vocabulary, std::string text, TokenKind kind = TokenKind::kNormal,
                         float score = 0) {
  vocabulary.tokens.push_back({.text = std::move(text), .score = score, .kind = kind});
  return static_cast<TokenId>(vocabulary.tokens.size() - 1);
}

/** Byte-level: ids 0…255 are the bytes. `words` are merged from left to right, byte by byte. */
inline Vocabulary byte_level_vocabulary(const std::vector<std::string>& words = {}) {
  Vocabulary v;
  v.model = VocabularyModel::kByteLevelBpe;
  std::map<std::string, bool> known;
  for (int byte = 0; byte < 256; ++byte) add_token(v, in_byte_alphabet(std::string(1, static_cast<char>(byte))));
  for (const std::string& word : words) {
    for (size_t size = 2; size <= word.size(); ++size) {
      const std::string joined = in_byte_alphabet(word.substr(0, size));
      if (known[joined]) continue;
      known[joined] = true;
      v.merges.emplace_back(in_byte_alphabet(word.substr(0, size - 1)), in_byte_alphabet(word.substr(size - 1, 1)));
      add_token(v, joined);
    }
  }
  v.splits.push_back({.pattern = kQwenPattern});
  return v;
}

/** SentencePiece: <unk> 0, <s> 1, </s> 2, bytes 3…258, U+2581, ASCII letters, then `words` (the first ones best). */
inline Vocabulary sentence_piece_vocabulary(const std::vector<std::string>& words = {}) {
  Vocabulary v;
  v.model = VocabularyModel::kSentencePieceBpe;
  v.merge_by_score = true;
  v.escape_spaces = true;
  v.space_prefix = formats::SpacePrefix::kAlways;
  v.drop_leading_space = true;
  v.unknown = add_token(v, "<unk>", TokenKind::kUnknown);
  v.bos = add_token(v, "<s>", TokenKind::kControl);
  v.eos = add_token(v, "</s>", TokenKind::kControl);
  v.add_bos = true;
  v.end_of_generation = {v.eos};
  for (int byte = 0; byte < 256; ++byte) {
    char spelled[8];
    std::snprintf(spelled, sizeof spelled, "<0x%02X>", byte);
    add_token(v, spelled, TokenKind::kByte);
  }
  add_token(v, "\u2581", TokenKind::kNormal, -1000);
  for (char c = 'a'; c <= 'z'; ++c) add_token(v, std::string(1, c), TokenKind::kNormal, -1000);
  float score = -1;
  for (const std::string& word : words) add_token(v, word, TokenKind::kNormal, score--);
  return v;
}

inline std::unique_ptr<Tokenizer> make_tokenizer(Vocabulary vocabulary) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::create(std::move(vocabulary));
  EXPECT_TRUE(tokenizer) << (tokenizer ? "" : tokenizer.error().message);
  return tokenizer ? std::move(*tokenizer) : nullptr;
}

inline std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special = false) {
  std::vector<TokenId> ids;
  tokenizer.encode(text, parse_special, ids);
  return ids;
}

/** Stored texts of ids, for readable expectations. */
inline std::vector<std::string> spell(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::vector<std::string> out;
  for (const TokenId id : ids) out.push_back(tokenizer.vocabulary().tokens.at(static_cast<size_t>(id)).text);
  return out;
}

/** Texts that tokenizers stumble over: Chinese in both scripts, Japanese, emoji sequences, combining marks, white space. */
inline const std::vector<std::string>& difficult_texts() {
  static const std::vector<std::string> texts = {
      "",
      " ",
      "Hello, traveller! How's the road?",
      "繁體中文：龍門客棧裡，掌櫃問道：「客官，要住店嗎？」",
      "简体中文：龙门客栈里，掌柜问道：“客官，要住店吗？”",
      "𠮷野家と髙島屋で𩸽を食べた。",
      "안녕하세요, 여행자님! \u1100\u1161\u11A8",
      "👨‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈 🇹🇼🇨🇳 ❤️‍🔥",
      "e\u0301 vs é, q\u0323\u0307 vs q\u0307\u0323, \u0344\u0f73",
      "สวัสดีชาวโลก नमस्ते दुनिया مرحبا بالعالم שלום",
      "  leading, trailing   \n\n\t mixed \r\n white\u00a0space\u2003here\u3000 ",
      std::string("nul\0byte", 8),
      "\u2581\u2581 <0x0A> <|im_end|> </s> [INST]",
      "123456789 3.14 ½ Ⅷ ①٣",
  };
  return texts;
}

/** Random text from characters of all sizes; the same for the same state of `random`. */
inline std::string random_text(std::mt19937& random, size_t characters) {
  static constexpr uint32_t kPool[] = {'a',    'b',    'c',    ' ',      ' ',    '\n',    'A',     '7',
                                       '.',    '<',    '|',    '>',      0xE9,   0x301,   0x4E2D,  0x6587,
                                       0x9F8D, 0x3042, 0xAC00, 0x1F469,  0x200D, 0x1F3FD, 0x20BB7, 0x2581,
                                       0xFFFD, 0x7F,   0x85,   0x10FFFF, '\'',   's'};
  std::string out;
  for (size_t i = 0; i < characters; ++i) text::utf8_append(kPool[random() % std::size(kPool)], out);
  return out;
}

}  // namespace banter::test
