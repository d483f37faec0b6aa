// Streaming: whole code points only, and the same text as decoding at once.
#include <gtest/gtest.h>

#include "text/tokenizer.h"
#include "text/utf8.h"
#include "tokenizer_fixture.h"

namespace banter::test {
namespace {

using text::StreamDecoder;

// What a stream must give: the decoded bytes without an incomplete end.
std::string streamed_by_definition(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.token_bytes(id);
  for (size_t at = 0; at < bytes.size();) {
    const text::Utf8Step step = text::utf8_step(std::string_view(bytes).substr(at));
    if (step.status == text::Utf8Status::kIncomplete) bytes.resize(at);
    at += step.size;
  }
  std::string out;
  text::utf8_append_lossy(bytes, out);
  return out;
}

TEST(StreamDecoder, EmitsWholeCodePointsForRandomTokens) {
  Vocabulary vocabulary = byte_level_vocabulary({"中文", "👩‍🚀", "\xE4\xB8", "\xF0\x9F\x91", " the"});
  const TokenId control = add_token(vocabulary, "<|im_end|>", TokenKind::kControl);
  const auto tokenizer = make_tokenizer(vocabulary);
  std::mt19937 random(21);
  for (int round = 0; round < 3000; ++round) {
    StreamDecoder stream(*tokenizer);
    std::vector<TokenId> ids;
    std::string all;
    for (size_t n = random() % 40; n > 0; --n) {
      // High bytes and multi-byte tokens, so that sequences begin, break and complete.
      const TokenId id = random() % 3 == 0 ? static_cast<TokenId>(random() % tokenizer->size())
                                           : static_cast<TokenId>(0x80 + random() % (random() % 2 == 0 ? 0x40 : 0x80));
      ids.push_back(random() % 20 == 0 ? control : id);
      std::string delta;
      stream.push(ids.back(), delta);
      ASSERT_TRUE(text::utf8_is_valid(delta));
      all += delta;
    }
    stream.finish();
    ASSERT_EQ(all, streamed_by_definition(*tokenizer, ids));
    // decode() differs in the end only: there an incomplete code point becomes U+FFFD.
    const std::string decoded = tokenizer->decode(ids);
    ASSERT_TRUE(decoded == all || decoded == all + "\uFFFD");
  }
}

TEST(StreamDecoder, RebuildsDifficultTextsByteByByte) {
  const auto tokenizer = make_tokenizer(byte_level_vocabulary());
  for (const std::string& text : difficult_texts()) {
    StreamDecoder stream(*tokenizer);
    std::string all;
    for (const char byte : text) {
      std::string delta;
      stream.push(static_cast<uint8_t>(byte), delta);
      ASSERT_TRUE(text::utf8_is_valid(delta));
      all += delta;
    }
    EXPECT_EQ(all, text);
  }
}

TEST(StreamDecoder, ByteFallbackTokensFormCharacters) {
  const auto tokenizer = make_tokenizer(sentence_piece_vocabulary({"\u2581hi"}));
  StreamDecoder stream(*tokenizer, true);
  std::string all;
  for (const TokenId id : encode(*tokenizer, "hi 龍門👩‍🚀")) stream.push(id, all);
  EXPECT_EQ(all, "hi 龍門👩‍🚀");
}

TEST(StreamDecoder, DropsOneLeadingSpaceOnlyAtTheStartOfAText) {
  const auto tokenizer = make_tokenizer(sentence_piece_vocabulary({"\u2581hi"}));
  const TokenId hi = tokenizer->find("\u2581hi"), space = tokenizer->find("\u2581"), begin = tokenizer->find("<s>");
  const auto streamed = [&](bool first, std::vector<TokenId> ids) {
    StreamDecoder stream(*tokenizer, first);
    std::string all;
    for (const TokenId id : ids) stream.push(id, all);
    return all;
  };
  EXPECT_EQ(streamed(true, {begin, hi, hi}), "hi hi");
  EXPECT_EQ(streamed(false, {hi, hi}), " hi hi");
  EXPECT_EQ(streamed(true, {space, hi}), " hi");
  const auto byte_level = make_tokenizer(byte_level_vocabulary());
  StreamDecoder stream(*byte_level, true);
  std::string all;
  stream.push(' ', all);
  EXPECT_EQ(all, " ");
}

TEST(StreamDecoder, AReplyCutInsideACharacterEndsBeforeIt) {
  const auto tokenizer = make_tokenizer(byte_level_vocabulary());
  const std::string text = "好👩";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    StreamDecoder stream(*tokenizer);
    std::string all;
    for (size_t i = 0; i < cut; ++i) stream.push(static_cast<uint8_t>(text[i]), all);
    stream.finish();
    EXPECT_EQ(all, cut < 3 ? "" : cut < 7 ? "好" : text);
    // The decoder starts afresh.
    stream.push('x', all);
    EXPECT_EQ(all.back(), 'x');
    EXPECT_EQ(all.find("\uFFFD"), std::string::npos);
  }
}

}  // namespace
}  // namespace banter::test
