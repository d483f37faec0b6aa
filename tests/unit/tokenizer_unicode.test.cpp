// UTF-8, Unicode properties, normalisation.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "text/normalizer.h"
#include "text/utf8.h"
#include "tokenizer_fixture.h"

namespace banter::text {
namespace {

using test::random_text;

std::string lossy(std::string_view bytes) {
  std::string out;
  utf8_append_lossy(bytes, out);
  return out;
}

std::string composed(std::string_view text, bool compatibility = false) {
  std::string out;
  append_composed(text, compatibility, out);
  return out;
}

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    utf8_append(c, bytes);
    const Utf8Step step = utf8_step(bytes);
    ASSERT_EQ(step.status, Utf8Status::kOk);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.size, bytes.size());
    ASSERT_EQ(utf8_size(bytes[0]), bytes.size());
    for (size_t cut = 1; cut < bytes.size(); ++cut)
      ASSERT_EQ(utf8_step(std::string_view(bytes).substr(0, cut)).status, Utf8Status::kIncomplete);
  }
}

TEST(Utf8, IllFormedSubpartsAreMaximal) {
  // The examples of the Unicode standard, section 3.9.
  EXPECT_EQ(lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB");
  EXPECT_EQ(lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(lossy("ab\xE4\xB8"), "ab\uFFFD");
  std::mt19937 random(31);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes;
    for (size_t n = random() % 12; n > 0; --n)
      bytes.push_back(static_cast<char>(random() % 2 == 0 ? random() : 0xC0 + random() % 0x40));
    const std::string repaired = lossy(bytes);
    ASSERT_TRUE(utf8_is_valid(repaired));
    ASSERT_EQ(utf8_is_valid(bytes), repaired == bytes);
  }
}

TEST(Utf8, WhiteSpaceIsUnicodes) {
  for (const uint32_t c : {0x09u, 0x0Au, 0x0Bu, 0x0Cu, 0x0Du, 0x20u, 0x85u, 0xA0u, 0x1680u, 0x2000u, 0x200Au, 0x2028u,
                           0x2029u, 0x202Fu, 0x205Fu, 0x3000u})
    EXPECT_TRUE(is_white_space(c)) << c;
  for (const uint32_t c : {0x08u, 0x0Eu, 0x1Cu, 0x180Eu, 0x200Bu, 0x2060u, 0xFEFFu, 0x61u})
    EXPECT_FALSE(is_white_space(c)) << c;
}

TEST(Utf8, ByteAlphabetIsABijection) {
  std::vector<bool> seen(0x200);
  for (int byte = 0; byte < 256; ++byte) {
    const uint32_t c = byte_alphabet_code_point(static_cast<uint8_t>(byte));
    ASSERT_LT(c, seen.size());
    EXPECT_FALSE(seen[c]);
    seen[c] = true;
    EXPECT_EQ(byte_of_alphabet(c), byte);
  }
  EXPECT_EQ(byte_alphabet_code_point(' '), 0x120u);   // Ġ
  EXPECT_EQ(byte_alphabet_code_point('\n'), 0x10Au);  // Ċ
  EXPECT_EQ(byte_alphabet_code_point('!'), '!');
  EXPECT_EQ(byte_of_alphabet(0x20), -1);
  EXPECT_EQ(byte_of_alphabet(0x144), -1);
  EXPECT_EQ(byte_of_alphabet(0x10FFFF), -1);
}

TEST(Normalizer, ComposesAsUnicodeSays) {
  EXPECT_EQ(composed("cafe\u0301"), "caf\u00E9");
  EXPECT_EQ(composed("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(composed("\u1E0B\u0323"), "\u1E0D\u0307");
  EXPECT_EQ(composed("\u1100\u1161\u11A8"), "\uAC01");
  EXPECT_EQ(composed("\u212B\u2126"), "\u00C5\u03A9");
  EXPECT_EQ(composed("\u0958"), "\u0915\u093C");  // excluded from composition
  EXPECT_EQ(composed("\uF900"), "\u8C48");
  EXPECT_EQ(composed("\uFB01\u2460"), "\uFB01\u2460");
  EXPECT_EQ(composed("\uFB01\u2460\uFF76\uFF9E", true), "fi1\u30AC");
  EXPECT_EQ(composed("繁體简体かな한글🚀"), "繁體简体かな한글🚀");
}

TEST(Normalizer, TheFastCheckNeverHidesWork) {
  std::mt19937 random(32);
  for (int i = 0; i < 20000; ++i) {
    std::string text = random_text(random, random() % 6);
    for (size_t n = random() % 3; n > 0; --n) {
      uint32_t c = random() % 0x11000;
      if (c >= 0xD800 && c <= 0xDFFF) c = 0x301;
      utf8_append(c, text);
    }
    if (is_plainly_nfc(text)) {
      ASSERT_EQ(composed(text), text);
    }
  }
}

TEST(Normalizer, PiecesOfDifferentTrustGiveTheSameText) {
  const Normalizer normalizer({{formats::NormalizeKind::kNfc, {}, {}},
                               {formats::NormalizeKind::kReplace, " ", "\u2581"},
                               {formats::NormalizeKind::kPrepend, {}, "\u2581"}});
  std::mt19937 random(33);
  for (int i = 0; i < 5000; ++i) {
    TrustedText marked;
    for (size_t n = random() % 6; n > 0; --n) marked.append(random_text(random, random() % 5), random() % 2 == 0);
    const std::string whole = marked.text;
    normalizer.apply(marked);
    ASSERT_EQ(marked.text, normalizer.apply(whole));
    ASSERT_EQ(marked.trust.size(), marked.text.size());
  }
}

TEST(Normalizer, ManyMarksTakeNoQuadraticTime) {
  std::string text = "e";
  for (int i = 0; i < 250000; ++i) text += "\u0301";
  for (int i = 0; i < 250000; ++i) text += "\u0323";
  for (int i = 0; i < 100000; ++i) text += "\u0f73";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(composed(text).empty());
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 20);
}

}  // namespace
}  // namespace banter::text
