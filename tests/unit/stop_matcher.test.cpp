// Stop strings in streamed text.
#include "dialogue/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "text/utf8.h"

namespace banter::dialogue {
namespace {

StopMatcher make(const std::vector<std::string>& stops) {
  auto matcher = StopMatcher::create(stops);
  EXPECT_TRUE(matcher) << matcher.error().message;
  return *matcher;
}

struct Found {
  std::string text;
  int32_t stop = -1;
  bool operator==(const Found&) const = default;
};

/** What the header promises, by plain search in the whole text. */
Found reference(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    int32_t best = -1;
    for (size_t i = 0; i < stops.size(); ++i) {
      const bool ends = std::string_view(text).substr(0, end).ends_with(stops[i]);
      if (ends && (best < 0 || stops[i].size() > stops[static_cast<size_t>(best)].size()))
        best = static_cast<int32_t>(i);
    }
    if (best >= 0) return {text.substr(0, end - stops[static_cast<size_t>(best)].size()), best};
  }
  return {text, -1};
}

/** Bytes at the end of `text` that a stop may begin with. */
size_t must_hold(const std::string& text, const std::vector<std::string>& stops) {
  size_t most = 0;
  for (const std::string& stop : stops)
    for (size_t n = 1; n < stop.size() && n <= text.size(); ++n)
      if (text.ends_with(stop.substr(0, n))) most = std::max(most, n);
  return most;
}

TEST(StopMatcher, holds_back_what_may_start_a_stop_and_releases_the_rest) {
  StopMatcher stop = make({"</s>", "\nUser:"});
  std::string out;
  EXPECT_FALSE(stop.push("Hello\nUs", out));
  EXPECT_EQ(out, "Hello");
  EXPECT_EQ(stop.held(), 3u);
  EXPECT_FALSE(stop.push("es one <", out));
  EXPECT_EQ(out, "Hello\nUses one ");
  EXPECT_FALSE(stop.push("/", out));
  EXPECT_TRUE(stop.push("s> and more", out));
  EXPECT_EQ(out, "Hello\nUses one ");
  EXPECT_EQ(stop.matched(), 0);
  EXPECT_TRUE(stop.push("ignored", out));
  stop.finish(out);
  EXPECT_EQ(out, "Hello\nUses one ");
  stop.reset();
  out.clear();
  EXPECT_FALSE(stop.push("again</s", out));
  stop.finish(out);
  EXPECT_EQ(out, "again</s");
}

TEST(StopMatcher, the_first_complete_stop_counts_and_of_those_the_longest) {
  for (const auto& [stops, text, want] :
       std::vector<std::tuple<std::vector<std::string>, std::string, Found>>{{{"abcd", "bc"}, "xabcd", {"xa", 1}},
                                                                             {{"bc", "abc"}, "xabc", {"x", 1}},
                                                                             {{"abc", "ab"}, "abc", {"", 1}},
                                                                             {{"aab"}, "aaaab", {"aa", 0}},
                                                                             {{"x", "x"}, "x", {"", 0}},
                                                                             {{"ababc"}, "abababc", {"ab", 0}}}) {
    StopMatcher stop = make(stops);
    Found got;
    for (const char c : text)
      if (stop.push({&c, 1}, got.text)) break;
    stop.finish(got.text);
    got.stop = stop.matched();
    EXPECT_EQ(got, want) << text;
    EXPECT_EQ(reference(text, stops), want) << text;
  }
}

TEST(StopMatcher, without_stops_everything_passes_at_once) {
  StopMatcher stop = make({});
  std::string out;
  EXPECT_FALSE(stop.push("", out));
  EXPECT_FALSE(stop.push("abc", out));
  EXPECT_EQ(out, "abc");
  EXPECT_FALSE(stop.stopped());
}

TEST(StopMatcher, refuses_what_cannot_be_a_stop) {
  const auto refused = [](const std::vector<std::string>& stops, const std::string& part) {
    const auto matcher = StopMatcher::create(stops);
    ASSERT_FALSE(matcher);
    EXPECT_EQ(matcher.error().code, BANTER_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(matcher.error().message.find(part), std::string::npos) << matcher.error().message;
  };
  refused({"fine", ""}, "stop string number 1 is empty");
  refused({"\xA9"}, "stop string number 0 is not valid UTF-8");
  refused({"caf\xC3"}, "not valid UTF-8");
  refused(std::vector<std::string>(1025, "a"), "1025 stop strings are too many");
  refused({std::string(65537, 'a')}, "65537 bytes");
  EXPECT_TRUE(StopMatcher::create(std::vector<std::string>{std::string(65536, 'a')}));
}

TEST(StopMatcher, any_chunking_of_any_text_equals_the_whole_text) {
  const std::vector<std::string> alphabet = {"a", "b", "a", "é", "è", "你", "你", "😀"};
  std::mt19937 bits(2024);
  const auto random_text = [&](size_t length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += alphabet[bits() % alphabet.size()];
    return text;
  };
  int stopped = 0, passed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops(bits() % 4);
    for (std::string& stop : stops) stop = random_text(1 + bits() % 5);
    const std::string text = random_text(bits() % 40);
    const Found want = reference(text, stops);
    const bool whole_code_points = bits() % 2 == 0;

    StopMatcher stop = make(stops);
    Found got;
    std::string fed;
    for (size_t at = 0; at < text.size() && !stop.stopped();) {
      size_t size = bits() % 6;
      while (whole_code_points && at + size < text.size() && (text[at + size] & 0xC0) == 0x80) ++size;
      const std::string chunk = text.substr(at, size);
      at += chunk.size();
      fed += chunk;
      stop.push(chunk, got.text);
      if (whole_code_points) {
        ASSERT_TRUE(text::utf8_is_valid(got.text));
      }
      // Nothing is held that could be released, and the other way round.
      if (!stop.stopped()) {
        ASSERT_EQ(got.text.size(), fed.size() - must_hold(fed, stops));
      }
    }
    stop.finish(got.text);
    got.stop = stop.matched();
    ASSERT_EQ(got, want) << "text " << text;
    (got.stop >= 0 ? stopped : passed) += 1;
  }
  EXPECT_GT(stopped, 5000);
  EXPECT_GT(passed, 5000);
}

TEST(StopMatcher, long_repetitive_stops_cost_linear_time) {
  // With a naive matcher this is 20 000 * 200 000 comparisons.
  StopMatcher stop = make({std::string(20000, 'a') + "b"});
  std::string out;
  for (int i = 0; i < 2000; ++i) ASSERT_FALSE(stop.push(std::string(100, 'a'), out));
  EXPECT_EQ(out.size(), 180000u);
  EXPECT_TRUE(stop.push("b", out));
  EXPECT_EQ(out.size(), 180000u);
}

}  // namespace
}  // namespace banter::dialogue
