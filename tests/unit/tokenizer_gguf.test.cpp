// Tokenizers from GGUF metadata.
#include <gtest/gtest.h>

#include "support/gguf_writer.h"
#include "tokenizer_fixture.h"

namespace banter::test {
namespace {

int32_t gguf_type(TokenKind kind) {
  switch (kind) {
    case TokenKind::kUnknown:
      return 2;
    case TokenKind::kControl:
      return 3;
    case TokenKind::kUserDefined:
      return 4;
    case TokenKind::kUnused:
      return 5;
    case TokenKind::kByte:
      return 6;
    default:
      return 1;
  }
}

// Metadata of a file that holds `vocabulary`.
GgufWriter writer_for(const Vocabulary& vocabulary, const char* model) {
  std::vector<std::string> texts, merges;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (const auto& token : vocabulary.tokens) {
    texts.push_back(token.text);
    scores.push_back(token.score);
    types.push_back(gguf_type(token.kind));
  }
  for (const auto& [left, right] : vocabulary.merges) merges.push_back(left + " " + right);
  GgufWriter writer;
  writer.set_string("tokenizer.ggml.model", model)
      .set_strings("tokenizer.ggml.tokens", texts)
      .set_i32s("tokenizer.ggml.token_type", types);
  if (std::string_view(model) == "llama") {
    writer.set_f32s("tokenizer.ggml.scores", scores);
  } else {
    writer.set_strings("tokenizer.ggml.merges", merges);
  }
  return writer;
}

Result<Vocabulary> read(const GgufWriter& writer) {
  const std::vector<std::byte> bytes = writer.bytes();
  auto file = formats::Gguf::open(borrow_memory(bytes, "test"), nullptr);
  if (!file) return file.error();
  return formats::vocabulary_from_gguf(*file);
}

Vocabulary read_well(const GgufWriter& writer) {
  auto vocabulary = read(writer);
  EXPECT_TRUE(vocabulary) << (vocabulary ? "" : vocabulary.error().message);
  return vocabulary ? std::move(*vocabulary) : Vocabulary{};
}

TEST(TokenizerGguf, ByteLevel) {
  Vocabulary source = byte_level_vocabulary({"hello", " you"});
  const TokenId end = add_token(source, "<|im_end|>", TokenKind::kNormal);  // some converters forget the type
  const TokenId pad = add_token(source, "[PAD]", TokenKind::kUnused);
  GgufWriter writer = writer_for(source, "gpt2");
  writer.set_string("tokenizer.ggml.pre", "qwen2")
      .set_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(end))
      .set_u32("tokenizer.ggml.bos_token_id", UINT32_MAX);
  const auto tokenizer = make_tokenizer(read_well(writer));
  EXPECT_EQ(spell(*tokenizer, encode(*tokenizer, "hello you 1")),
            (std::vector<std::string>{"hello", "Ġyou", "Ġ", "1"}));
  EXPECT_TRUE(tokenizer->is_control(end));
  EXPECT_TRUE(tokenizer->is_end_of_generation(end));
  EXPECT_TRUE(tokenizer->is_unused(pad));
  EXPECT_EQ(tokenizer->vocabulary().bos, -1);
  EXPECT_EQ(encode(*tokenizer, "<|im_end|>", true), std::vector<TokenId>{end});
  EXPECT_NE(encode(*tokenizer, "<|im_end|>"), std::vector<TokenId>{end});
  EXPECT_EQ(tokenizer->decode(encode(*tokenizer, "cafe\u0301")), "café");  // Qwen's texts are NFC
}

TEST(TokenizerGguf, SentencePiece) {
  const Vocabulary source = sentence_piece_vocabulary({"\u2581h", "\u2581he", "llo", "\u2581hello"});
  GgufWriter writer = writer_for(source, "llama");
  const auto tokenizer = make_tokenizer(read_well(writer));
  auto ids = encode(*tokenizer, "hello\n");
  tokenizer->add_special(ids);
  EXPECT_EQ(spell(*tokenizer, ids), (std::vector<std::string>{"<s>", "\u2581he", "l", "l", "o", "<0x0A>"}));
  EXPECT_EQ(tokenizer->decode(ids), "hello\n");
  EXPECT_EQ(tokenizer->vocabulary().unknown, 0);
  EXPECT_EQ(tokenizer->vocabulary().eos, 2);
  EXPECT_TRUE(tokenizer->is_end_of_generation(2));

  writer.set_bool("tokenizer.ggml.add_space_prefix", false)
      .set_bool("tokenizer.ggml.add_bos_token", false)
      .set_bool("tokenizer.ggml.add_eos_token", true);
  const auto gemma = make_tokenizer(read_well(writer));
  ids = encode(*gemma, "a b");
  gemma->add_special(ids);
  EXPECT_EQ(spell(*gemma, ids), (std::vector<std::string>{"a", "\u2581", "b", "</s>"}));
  EXPECT_EQ(gemma->decode(encode(*gemma, " a")), " a");
}

TEST(TokenizerGguf, ByteTokensAreKnownByTheirSpelling) {
  Vocabulary source = sentence_piece_vocabulary({"<0x0", "<0x0A", "<0", "0x"});
  for (auto& token : source.tokens)
    if (token.kind == TokenKind::kByte) token.kind = TokenKind::kNormal;
  for (const char* c : {"<", "0", ">", "A"}) add_token(source, c, TokenKind::kNormal, -1000);
  const auto tokenizer = make_tokenizer(read_well(writer_for(source, "llama")));
  const TokenId newline = tokenizer->find("<0x0A>");
  EXPECT_EQ(encode(*tokenizer, "\n").back(), newline);
  for (const TokenId id : encode(*tokenizer, "<0x0A>", true)) EXPECT_NE(id, newline);
}

TEST(TokenizerGguf, Phi3StripsBehindItsSpecials) {
  Vocabulary source = sentence_piece_vocabulary();
  source.tokens[2].kind = TokenKind::kUserDefined;  // as in its files
  add_token(source, "<|user|>", TokenKind::kControl);
  GgufWriter writer = writer_for(source, "llama");
  writer.set_string("general.architecture", "phi3");
  const auto tokenizer = make_tokenizer(read_well(writer));
  EXPECT_EQ(spell(*tokenizer, encode(*tokenizer, "<|user|>\n a", true)),
            (std::vector<std::string>{"<|user|>", "\u2581", "a"}));
  EXPECT_EQ(spell(*tokenizer, encode(*tokenizer, "<s> a", true)),
            (std::vector<std::string>{"<s>", "\u2581", "\u2581", "a"}));
  EXPECT_TRUE(tokenizer->is_end_of_generation(2));
  EXPECT_NE(encode(*tokenizer, "</s>").front(), 2);
}

TEST(TokenizerGguf, EndOfGenerationTokens) {
  Vocabulary source = byte_level_vocabulary();
  const TokenId end = add_token(source, "<|end|>", TokenKind::kControl),
                back = add_token(source, "<|return|>", TokenKind::kControl),
                call = add_token(source, "<|call|>", TokenKind::kControl),
                pad = add_token(source, "<|fim_pad|>", TokenKind::kControl),
                html = add_token(source, "</s>", TokenKind::kNormal);
  GgufWriter writer = writer_for(source, "gpt2");
  writer.set_string("tokenizer.ggml.pre", "gpt-4o")
      .set_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(back))
      .set_u32("tokenizer.ggml.fim_pad_token_id", static_cast<uint32_t>(pad));
  const Vocabulary v = read_well(writer);
  const auto ends = [&](TokenId id) { return std::count(v.end_of_generation.begin(), v.end_of_generation.end(), id); };
  EXPECT_EQ(ends(back), 1);
  EXPECT_EQ(ends(call), 1);
  EXPECT_EQ(ends(pad), 1);
  EXPECT_EQ(ends(end), 0);   // gpt-oss: it only closes a channel
  EXPECT_EQ(ends(html), 0);  // ordinary text in Qwen's vocabulary
  EXPECT_EQ(v.tokens[static_cast<size_t>(html)].kind, TokenKind::kNormal);
}

TEST(TokenizerGguf, DefaultIdsCountOnlyWhereTheyAreSpecial) {
  const Vocabulary v =
      read_well(writer_for(byte_level_vocabulary(), "gpt2").set_string("tokenizer.ggml.pre", "llama-bpe"));
  EXPECT_EQ(v.bos, -1);  // token 11 is a comma here
  EXPECT_EQ(v.eos, -1);
  EXPECT_TRUE(v.add_bos);
  EXPECT_TRUE(v.ignore_merges);
}

TEST(TokenizerGguf, Refusals) {
  const auto expect = [](const GgufWriter& writer, banter_result code, const char* part) {
    const auto vocabulary = read(writer);
    ASSERT_FALSE(vocabulary) << part;
    EXPECT_EQ(vocabulary.error().code, code) << vocabulary.error().message;
    EXPECT_NE(vocabulary.error().message.find(part), std::string::npos) << vocabulary.error().message;
  };
  const Vocabulary bytes = byte_level_vocabulary({"ab"}), pieces = sentence_piece_vocabulary();
  const std::vector<std::string> few = {"a", "b"};
  const std::vector<int32_t> types = {1};
  expect(GgufWriter(), BANTER_ERROR_UNSUPPORTED_TOKENIZER, "no tokenizer");
  expect(writer_for(bytes, "bert"), BANTER_ERROR_UNSUPPORTED_TOKENIZER, "bert");
  expect(writer_for(bytes, "gpt2").set_string("tokenizer.ggml.pre", "from-the-future"),
         BANTER_ERROR_UNSUPPORTED_TOKENIZER, "from-the-future");
  expect(GgufWriter().set_string("tokenizer.ggml.model", "gpt2"), BANTER_ERROR_CORRUPT, "tokens");
  expect(GgufWriter().set_string("tokenizer.ggml.model", "gpt2").set_u32("tokenizer.ggml.tokens", 3),
         BANTER_ERROR_CORRUPT, "tokens");
  expect(GgufWriter().set_string("tokenizer.ggml.model", "gpt2").set_strings("tokenizer.ggml.tokens", few),
         BANTER_ERROR_CORRUPT, "merges");
  expect(GgufWriter().set_string("tokenizer.ggml.model", "llama").set_strings("tokenizer.ggml.tokens", few),
         BANTER_ERROR_CORRUPT, "scores");
  expect(GgufWriter()
             .set_string("tokenizer.ggml.model", "llama")
             .set_strings("tokenizer.ggml.tokens", few)
             .set_i32s("tokenizer.ggml.token_type", types),
         BANTER_ERROR_CORRUPT, "token_type");
  expect(GgufWriter()
             .set_string("tokenizer.ggml.model", "gpt2")
             .set_strings("tokenizer.ggml.tokens", few)
             .set_strings("tokenizer.ggml.merges", few),
         BANTER_ERROR_CORRUPT, "two parts");
  // A byte token that is none shows when the tokenizer is made.
  Vocabulary odd = pieces;
  odd.tokens[5].text = "<0xZZ>";
  EXPECT_FALSE(Tokenizer::create(read_well(writer_for(odd, "llama"))));
}

}  // namespace
}  // namespace banter::test
