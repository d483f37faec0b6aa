// The parts of the Godot addon that know nothing of the engine.
#include <gtest/gtest.h>

#include <random>

#include "errors.h"
#include "saved_state.h"
#include "sentence_splitter.h"

namespace banter::godot {
namespace {

std::vector<std::string> split(std::string_view text, size_t piece) {
  SentenceSplitter splitter;
  std::vector<std::string> sentences;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.size(), at + piece);
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) end++;  // whole code points
    for (std::string& sentence : splitter.add(text.substr(at, end - at))) sentences.push_back(std::move(sentence));
    at = end;
  }
  if (std::string rest = splitter.finish(); !rest.empty()) sentences.push_back(std::move(rest));
  return sentences;
}

using Sentences = std::vector<std::string>;

TEST(SentenceSplitter, EndsSentencesWherePeopleDo) {
  const std::pair<const char*, Sentences> cases[] = {
      {"", {}},
      {"   \n ", {}},
      {"Hello", {"Hello"}},
      {"Hello. Who is there?  Me!", {"Hello.", "Who is there?", "Me!"}},
      {"\"Stop!\" she said. (Really?) Yes.", {"\"Stop!\"", "she said.", "(Really?)", "Yes."}},
      {"It costs 3.50 gold. Pay.", {"It costs 3.50 gold.", "Pay."}},
      {"Mr. Oak met J. R. Ash. They left.", {"Mr. Oak met J. R. Ash.", "They left."}},
      {"So did I. And you?", {"So did I.", "And you?"}},
      {"Wait... What?! No!!!", {"Wait...", "What?!", "No!!!"}},
      {"one\ntwo\n\nthree", {"one", "two", "three"}},
      {"你好。你是谁？“走开！”好吧", {"你好。", "你是谁？", "“走开！”", "好吧"}},
      {"Well… maybe… not", {"Well…", "maybe…", "not"}},
      {"Café. Ça va?", {"Café.", "Ça va?"}},
  };
  for (const auto& [text, wanted] : cases) {
    for (const size_t piece : {1, 2, 3, 7, 1000})
      EXPECT_EQ(split(text, piece), wanted) << text << " in pieces of " << piece;
  }
}

TEST(SentenceSplitter, GivesASentenceAsSoonAsItIsDecided) {
  SentenceSplitter splitter;
  EXPECT_EQ(splitter.add("Hello."), Sentences{});  // a quote may follow
  EXPECT_EQ(splitter.add(" W"), Sentences{"Hello."});
  EXPECT_EQ(splitter.finish(), "W");
  EXPECT_EQ(splitter.add("Again.\n"), Sentences{"Again."});
  EXPECT_EQ(splitter.finish(), "");
}

TEST(SentenceSplitter, LosesNothingHoweverTextIsCut) {
  const std::vector<std::string> alphabet = {"a", "B",  ".",  "!", "?", " ", "\n", "\"",
                                             ")", "Mr", "。", "”", "…", "é", "1"};
  std::mt19937 random(7);
  for (int round = 0; round < 3000; round++) {
    std::string text;
    for (uint32_t i = random() % 40; i > 0; i--) text += alphabet[random() % alphabet.size()];
    const Sentences whole = split(text, text.size() + 1);
    EXPECT_EQ(split(text, 1), whole) << text;
    EXPECT_EQ(split(text, 1 + random() % 5), whole) << text;
    std::string joined, wanted;
    for (const std::string& sentence : whole) joined += sentence;
    std::erase_if(joined, [](char c) { return c == ' ' || c == '\n'; });
    for (const char c : text) {
      if (c != ' ' && c != '\n') wanted += c;
    }
    EXPECT_EQ(joined, wanted);
  }
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

const std::vector<Turn> kTurns = {
    {BANTER_ROLE_USER, "Grüß dich!"}, {BANTER_ROLE_ASSISTANT, ""}, {BANTER_ROLE_SYSTEM, "x"}};

TEST(SavedState, ComesBackAsItWas) {
  for (const std::vector<Turn>& turns : {std::vector<Turn>{}, kTurns}) {
    const std::vector<std::byte> packed = pack_state(turns, bytes_of("snapshot"));
    SavedState state;
    ASSERT_EQ(unpack_state(packed, state), BANTER_OK);
    EXPECT_EQ(state.turns, turns);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(state.snapshot.data()), state.snapshot.size()), "snapshot");
  }
}

TEST(SavedState, TakesAnotherHostsSnapshotAsOneWithoutHistory) {
  SavedState state;
  ASSERT_EQ(unpack_state(bytes_of("anything at all"), state), BANTER_OK);
  EXPECT_TRUE(state.turns.empty());
  EXPECT_EQ(state.snapshot.size(), 15u);
}

TEST(SavedState, RefusesEveryCutAndSurvivesEveryFlippedByte) {
  const std::vector<std::byte> packed = pack_state(kTurns, bytes_of("snapshot"));
  for (size_t size = 8; size < packed.size(); size++) {
    SavedState state;
    EXPECT_EQ(unpack_state(std::span(packed).first(size), state), BANTER_ERROR_CORRUPT) << size;
  }
  for (size_t at = 0; at < packed.size(); at++) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::vector<std::byte> bent = packed;
      bent[at] ^= static_cast<std::byte>(flip);
      SavedState state;
      static_cast<void>(unpack_state(bent, state));
      EXPECT_LE(state.snapshot.size(), bent.size());
    }
  }
}

TEST(SavedState, RefusesANewerVersion) {
  std::vector<std::byte> packed = pack_state(kTurns, {});
  packed[8] = std::byte{2};
  SavedState state;
  EXPECT_EQ(unpack_state(packed, state), BANTER_ERROR_VERSION);
}

TEST(Roles, HaveNamesBothWays) {
  for (const banter_role role : {BANTER_ROLE_SYSTEM, BANTER_ROLE_USER, BANTER_ROLE_ASSISTANT}) {
    banter_role back = -1;
    EXPECT_TRUE(role_of(name_of(role), back));
    EXPECT_EQ(back, role);
  }
  banter_role out = BANTER_ROLE_USER;
  EXPECT_FALSE(role_of("tool", out));
}

TEST(Errors, OfDetailsAndOfClasses) {
  EXPECT_EQ(error_of(BANTER_OK), kOk);
  EXPECT_EQ(error_of(BANTER_ERROR_FILE_NOT_FOUND), kErrFileNotFound);
  EXPECT_EQ(error_of(BANTER_ERROR_UNSUPPORTED_ARCHITECTURE), kErrUnavailable);
  EXPECT_EQ(error_of(BANTER_ERROR_KV_POOL_EXHAUSTED), kErrOutOfMemory);
  EXPECT_EQ(error_of(BANTER_DETAIL(BANTER_ERROR_IO, 77)), kErrFileCantRead);
  EXPECT_EQ(error_of(200), kFailed);
  for (banter_result code = 1; code <= BANTER_ERROR_DEADLINE; code++) EXPECT_NE(error_of(code), kOk) << code;
}

}  // namespace
}  // namespace banter::godot
