// Split patterns: translation from Oniguruma's syntax, behaviours, limits.
#include <gtest/gtest.h>

#include <chrono>

#include "formats/split_patterns.h"
#include "text/splitter.h"
#include "tokenizer_fixture.h"

namespace banter::text {
namespace {

using formats::SplitBehavior;
using formats::SplitStage;
using Strings = std::vector<std::string>;

Strings split(const std::vector<SplitStage>& stages, std::string_view text) {
  Result<Splitter> splitter = Splitter::create(stages);
  EXPECT_TRUE(splitter) << (splitter ? "" : splitter.error().message);
  Strings out;
  if (!splitter) return out;
  SplitScratch scratch(text.size());
  for (const Piece piece : splitter->split(text, scratch))
    out.emplace_back(text.substr(piece.begin, piece.end - piece.begin));
  return out;
}

Strings split(const std::string& pattern, std::string_view text, SplitBehavior behavior = SplitBehavior::kIsolated,
              bool invert = false) {
  return split(std::vector<SplitStage>{{.pattern = pattern, .behavior = behavior, .invert = invert}}, text);
}

TEST(Splitter, Behaviours) {
  const char* text = "The-final--countdown";
  EXPECT_EQ(split("-", text, SplitBehavior::kIsolated), (Strings{"The", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split("-", text, SplitBehavior::kRemoved), (Strings{"The", "final", "countdown"}));
  EXPECT_EQ(split("-", text, SplitBehavior::kMergedWithPrevious), (Strings{"The-", "final-", "-", "countdown"}));
  EXPECT_EQ(split("-", text, SplitBehavior::kMergedWithNext), (Strings{"The", "-final", "-", "-countdown"}));
  EXPECT_EQ(split("-", text, SplitBehavior::kContiguous), (Strings{"The", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split("\\w+", text, SplitBehavior::kRemoved, true), (Strings{"The", "final", "countdown"}));
  EXPECT_EQ(split("-", "", SplitBehavior::kIsolated), Strings{});
  EXPECT_EQ(split("x*", "axb", SplitBehavior::kIsolated),
            (Strings{"a", "x", "b"}));  // empty matches cut without a piece
}

TEST(Splitter, PatternsOfRealModels) {
  const auto by_name = [](std::string_view name, std::string_view text) {
    formats::PreTokenizer pre;
    EXPECT_TRUE(formats::find_pre_tokenizer(name, pre)) << name;
    return split(pre.splits, text);
  };
  EXPECT_EQ(by_name("gpt-2", "I'll  go  to 42 inns!\n\nOK "),
            (Strings{"I", "'ll", " ", " go", " ", " to", " 42", " inns", "!", "\n", "\n", "OK", " "}));
  EXPECT_EQ(by_name("qwen2", "We'LL pay 123 coins.\n\n  Yes"),
            (Strings{"We", "'LL", " pay", " ", "1", "2", "3", " coins", ".\n\n", " ", " Yes"}));
  EXPECT_EQ(by_name("llama-bpe", "12345 don'T"), (Strings{"123", "45", " don", "'T"}));
  EXPECT_EQ(by_name("deepseek-v3", "a龍門1234!ok"), (Strings{"a", "龍門", "123", "4", "!ok"}));
  EXPECT_EQ(by_name("gpt-4o", "HELLOWorld's你好"), (Strings{"HELLOWorld's", "你好"}));
  EXPECT_EQ(by_name("tekken", "HELLOWorld's"), (Strings{"HELLOWorld", "'s"}));
  EXPECT_EQ(by_name("falcon", "a,b 12345"), (Strings{"a", ",", "b", " ", "123", "45"}));
  EXPECT_EQ(by_name("starcoder", "x 42"), (Strings{"x", " ", "4", "2"}));
  EXPECT_EQ(by_name("kimi-k2", "Hello世界World"), (Strings{"Hello", "世界", "World"}));
  EXPECT_EQ(by_name("bloom", "Hi there, you"), (Strings{"Hi", " there", ",", " you"}));
  formats::PreTokenizer unknown;
  EXPECT_FALSE(formats::find_pre_tokenizer("nobody-knows", unknown));
  EXPECT_FALSE(formats::find_pre_tokenizer("", unknown));
}

TEST(Splitter, AllNamedPatternsCompileAndCoverTheText) {
  for (const char* name :
       {"llama-bpe", "dbrx",        "glm4",           "qwen2",        "stablelm2",  "qwen35",     "gpt-4o", "tekken",
        "tiny_aya",  "deepseek-v3", "deepseek-coder", "deepseek-llm", "smollm",     "gpt-2",      "mpt",    "falcon",
        "bloom",     "viking",      "kimi-k2",        "bailingmoe",   "seed-coder", "exaone-moe", "default"}) {
    formats::PreTokenizer pre;
    ASSERT_TRUE(formats::find_pre_tokenizer(name, pre)) << name;
    for (const std::string& text : test::difficult_texts()) {
      std::string joined;
      for (const std::string& piece : split(pre.splits, text)) joined += piece;
      EXPECT_EQ(joined, text) << name;
    }
  }
}

TEST(Splitter, UnicodeClassesFollowOniguruma) {
  EXPECT_EQ(split("\\s+", "a\u00a0\u3000\u0085b", SplitBehavior::kRemoved), (Strings{"a", "b"}));
  EXPECT_EQ(split("\\s+", "a\u180eb", SplitBehavior::kRemoved),
            Strings{"a\u180eb"});  // no White_Space since Unicode 6.3
  EXPECT_EQ(split("[^\\s]+", "a\u180e b"), (Strings{"a\u180e", " ", "b"}));
  EXPECT_EQ(split("\\w+", "e\u0301\u203fx-y"), (Strings{"e\u0301\u203fx", "-", "y"}));
  EXPECT_EQ(split("[\\w]+|[^\\W]", "né!"), (Strings{"né", "!"}));
  EXPECT_EQ(split("\\d+", "a٣4"), (Strings{"a", "٣4"}));
  EXPECT_EQ(split("\\h+", "xBEEFy"), (Strings{"x", "BEEF", "y"}));
  EXPECT_EQ(split("(?i:'s)", "a'ſb"), (Strings{"a", "'ſ", "b"}));
}

TEST(Splitter, SetsNestAndIntersect) {
  EXPECT_EQ(split("[a[bc]]+", "xabcx"), (Strings{"x", "abc", "x"}));
  EXPECT_EQ(split("[^a[bc]]+", "abxyc"), (Strings{"ab", "xy", "c"}));
  EXPECT_EQ(split("[a-z&&[^aeiou]]+", "banana"), (Strings{"b", "a", "n", "a", "n", "a"}));
  EXPECT_EQ(split("[^a-z&&[^aeiou]]+", "xaX"), (Strings{"x", "aX"}));
  EXPECT_EQ(split("[x[^a-z]]+", "axXb"), (Strings{"a", "xX", "b"}));
  EXPECT_EQ(split("[\\p{Han}&&[^龍]]+", "龍門客龍"), (Strings{"龍", "門客", "龍"}));
  EXPECT_EQ(split("[]a]+", "b]a"), (Strings{"b", "]a"}));
  EXPECT_EQ(split("[[:upper:]]+", "aBC"), (Strings{"a", "BC"}));
  EXPECT_EQ(split(" ?[^(\\s|[.,!?…。，、।۔،])]+", "Hi there, you"), (Strings{"Hi", " there", ",", " you"}));
  EXPECT_EQ(split("[\\u4E00-\\u9FA5]+", "a中文b"), (Strings{"a", "中文", "b"}));
}

TEST(Splitter, RefusesWhatItCannotTranslate) {
  const auto code_of = [](const std::string& pattern) {
    const auto result = Splitter::create({{.pattern = pattern}});
    return result ? BANTER_OK : result.error().code;
  };
  for (const char* bad : {"(*LIMIT_MATCH=1)a", "(?m:a.b)", "(?C1)a", "(?R)", "a\\Kb", "\\Ca", "\\g<1>", "(a", "a)",
                          "*a", "\\p{Nonsense}"})
    EXPECT_EQ(code_of(bad), BANTER_ERROR_UNSUPPORTED_TOKENIZER) << bad;
  for (const char* bad : {"", "[a", "a\\", "[a[b]", "\\u12", "[[:alpha]"}) EXPECT_NE(code_of(bad), BANTER_OK) << bad;
  EXPECT_EQ(code_of(std::string(5000, '[')), BANTER_ERROR_UNSUPPORTED_TOKENIZER);
  EXPECT_NE(code_of(std::string(5000, '(')), BANTER_OK);
  EXPECT_EQ(code_of(std::string(100000, 'a')), BANTER_ERROR_CORRUPT);
}

TEST(Splitter, StagesOnTheByteAlphabetCutBetweenBytes) {
  // "²" is a digit of the alphabet for byte 0xB2, which occurs inside "Ⲳ" (E2 B2 B2).
  const std::vector<SplitStage> stages = {{.pattern = "\\p{N}", .on_byte_alphabet = true}};
  EXPECT_EQ(split(stages,
                  "a\u2CB2"
                  "7"),
            (Strings{"a\xE2", "\xB2", "\xB2", "7"}));
}

TEST(Splitter, WindowsDoNotChangeMatches) {
  // Pieces longer than the first window, at its border, and look-ahead across it.
  for (const size_t size : {1022u, 1023u, 1024u, 1025u, 2047u, 2049u, 5000u}) {
    const std::string letters(size, 'a'), spaces(size, ' ');
    EXPECT_EQ(split(test::kQwenPattern, letters + spaces + "b"), (Strings{letters, spaces.substr(1), " b"}));
    EXPECT_EQ(split(test::kQwenPattern, spaces + "\n" + letters), (Strings{spaces + "\n", letters}));
    EXPECT_EQ(split("\\s+$", "x" + spaces + "y" + spaces), (Strings{"x" + spaces + "y", spaces}));
    EXPECT_EQ(split("[\\r\\n]", letters + "\n" + letters), (Strings{letters, "\n", letters}));
  }
}

TEST(Splitter, HostilePatternsAndTextsEnd) {
  const auto start = std::chrono::steady_clock::now();
  const auto joined_size = [](const Strings& pieces) {
    size_t size = 0;
    for (const std::string& piece : pieces) size += piece.size();
    return size;
  };
  const std::string a(50000, 'a'), digits(50000, '7');
  for (const char* pattern :
       {"(a|aa)+$b", "(a+)+b", "(?:a?){30}a{30}b", "a(?=.*b)", "(.*)*x", "(a*)*\\p{N}", "(?:(?:a|b|ab)*)*c"})
    EXPECT_EQ(joined_size(split(pattern, a)), a.size()) << pattern;
  EXPECT_EQ(joined_size(split("\\d{1,3}(?=(?:\\d{3})*\\b)", digits)), digits.size());
  EXPECT_EQ(split("\\d{1,3}(?=(?:\\d{3})*\\b)", "1234567"), (Strings{"1", "234", "567"}));
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 200);
}

}  // namespace
}  // namespace banter::text
