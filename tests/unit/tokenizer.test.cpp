// Encoding and decoding with small vocabularies, against the definition of byte-pair encoding written out naively.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tokenizer_fixture.h"

namespace banter::test {
namespace {

using text::Segment;

// Byte-pair encoding by definition: the adjacent pair with the lowest rank, leftmost, until none is left.
std::vector<std::string> merge_naively(std::vector<std::string> symbols,
                                       const std::map<std::pair<std::string, std::string>, size_t>& ranks) {
  while (true) {
    size_t best = symbols.size(), best_rank = SIZE_MAX;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto rank = ranks.find({symbols[i], symbols[i + 1]});
      if (rank != ranks.end() && rank->second < best_rank) best = i, best_rank = rank->second;
    }
    if (best == symbols.size()) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

// A vocabulary with random merges over few bytes, so that merges collide and chain.
Vocabulary random_byte_vocabulary(std::mt19937& random, size_t merges) {
  Vocabulary v = byte_level_vocabulary();
  v.splits.clear();
  std::vector<std::string> parts = {"a", "b", "c", "Ġ", "d"};
  std::map<std::string, bool> known;
  while (v.merges.size() < merges) {
    const std::string left = parts[random() % parts.size()], right = parts[random() % parts.size()];
    if (left.size() + right.size() > 24 || known[left + right]) continue;
    known[left + right] = true;
    v.merges.emplace_back(left, right);
    add_token(v, left + right);
    parts.push_back(left + right);
  }
  return v;
}

TEST(Tokenizer, MergesByRankAsDefined) {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    const Vocabulary vocabulary = random_byte_vocabulary(random, 5 + random() % 200);
    std::map<std::pair<std::string, std::string>, size_t> ranks;
    for (size_t i = 0; i < vocabulary.merges.size(); ++i) ranks.emplace(vocabulary.merges[i], i);
    const auto tokenizer = make_tokenizer(vocabulary);
    for (int i = 0; i < 60; ++i) {
      std::string text;
      std::vector<std::string> symbols;
      for (size_t n = random() % 150; n > 0; --n) {  // both the scanning and the heap path
        text += "abc d"[random() % 5];
        symbols.push_back(text.back() == ' ' ? "Ġ" : std::string(1, text.back()));
      }
      ASSERT_EQ(spell(*tokenizer, encode(*tokenizer, text)), merge_naively(symbols, ranks)) << text;
    }
  }
}

TEST(Tokenizer, MergesByScoreAsDefined) {
  std::mt19937 random(12);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> words;
    for (size_t i = 0; i < 60; ++i) {
      std::string word;
      for (size_t n = 2 + random() % 5; n > 0; --n)
        word += random() % 5 == 0 ? std::string("\u2581") : std::string(1, "abc"[random() % 3]);
      words.push_back(word);
    }
    Vocabulary vocabulary = sentence_piece_vocabulary(words);
    for (size_t i = 286; i < vocabulary.tokens.size(); ++i)  // equal scores: the leftmost pair goes first
      vocabulary.tokens[i].score = -static_cast<float>(random() % 8);
    std::map<std::string, float> scores;
    for (const auto& token : vocabulary.tokens)
      if (token.kind == TokenKind::kNormal) scores.emplace(token.text, token.score);
    const auto tokenizer = make_tokenizer(vocabulary);
    for (int i = 0; i < 60; ++i) {
      std::string text;
      std::vector<std::string> symbols = {"\u2581"};
      for (size_t n = 1 + random() % 120; n > 0; --n) {
        text += "abc "[random() % 4];
        symbols.push_back(text.back() == ' ' ? "\u2581" : std::string(1, text.back()));
      }
      while (true) {
        size_t best = symbols.size();
        for (size_t k = 0; k + 1 < symbols.size(); ++k) {
          const auto score = scores.find(symbols[k] + symbols[k + 1]);
          if (score == scores.end()) continue;
          if (best == symbols.size() || score->second > scores.at(symbols[best] + symbols[best + 1])) best = k;
        }
        if (best == symbols.size()) break;
        symbols[best] += symbols[best + 1];
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      }
      ASSERT_EQ(spell(*tokenizer, encode(*tokenizer, text)), symbols) << text;
    }
  }
}

TEST(Tokenizer, DecodingGivesTheTextBack) {
  std::mt19937 random(13);
  const auto bytes = make_tokenizer(byte_level_vocabulary({" the", "中文", "👩", "ing", "\n\n"}));
  const auto pieces = make_tokenizer(sentence_piece_vocabulary({"\u2581th", "\u2581the", "in", "ing"}));
  std::vector<std::string> texts = difficult_texts();
  for (int i = 0; i < 300; ++i) texts.push_back(random_text(random, random() % 60));
  for (const std::string& text : texts) {
    EXPECT_EQ(bytes->decode(encode(*bytes, text)), text);
    if (text.find("\u2581") != std::string::npos) continue;  // SentencePiece cannot tell it from a space
    EXPECT_EQ(pieces->decode(encode(*pieces, text)), text);
  }
}

TEST(Tokenizer, InvalidUtf8BecomesReplacementCharacters) {
  const auto tokenizer = make_tokenizer(byte_level_vocabulary());
  EXPECT_EQ(tokenizer->decode(encode(*tokenizer,
                                     "a\xFF"
                                     "b\xE4\xB8")),
            "a\uFFFDb\uFFFD");
  EXPECT_EQ(tokenizer->decode(encode(*tokenizer, "\xED\xA0\x80\xC0\xAF\xF4\x90\x80\x80")),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST(Tokenizer, ByteFallbackAndUnknownCharacters) {
  auto vocabulary = sentence_piece_vocabulary();
  const auto with_bytes = make_tokenizer(vocabulary);
  EXPECT_EQ(spell(*with_bytes, encode(*with_bytes, "a☃")),
            (std::vector<std::string>{"\u2581", "a", "<0xE2>", "<0x98>", "<0x83>"}));
  vocabulary.byte_fallback = false;
  const auto fused = make_tokenizer(vocabulary);
  EXPECT_EQ(spell(*fused, encode(*fused, "a☃\n☄b")), (std::vector<std::string>{"\u2581", "a", "<unk>", "b"}));
  vocabulary.fuse_unknown = false;
  const auto single = make_tokenizer(vocabulary);
  EXPECT_EQ(spell(*single, encode(*single, "☃☄")), (std::vector<std::string>{"\u2581", "<unk>", "<unk>"}));
  vocabulary.unknown = -1;
  const auto dropped = make_tokenizer(vocabulary);
  EXPECT_EQ(spell(*dropped, encode(*dropped, "a☃b")), (std::vector<std::string>{"\u2581", "a", "b"}));
}

TEST(Tokenizer, SpellingAByteTokenDoesNotMakeOne) {
  auto vocabulary = sentence_piece_vocabulary({"<0", "<0x", "<0x0", "<0x0A", "0A"});
  for (const char c : {'<', '0', 'x', 'A', '>'})
    if (c != 'x') add_token(vocabulary, std::string(1, c), TokenKind::kNormal, -1000);
  const TokenId newline = 3 + 0x0A;
  const auto tokenizer = make_tokenizer(vocabulary);
  for (const bool parse_special : {false, true})
    for (const TokenId id : encode(*tokenizer, "<0x0A>", parse_special)) EXPECT_NE(id, newline);
  EXPECT_EQ(encode(*tokenizer, "\n").back(), newline);
}

TEST(Tokenizer, MergesNeverMakeAControlToken) {
  // A file whose merges build the end marker out of plain text.
  Vocabulary vocabulary = byte_level_vocabulary({"<|im_end|>"});
  vocabulary.splits.clear();
  const TokenId end = static_cast<TokenId>(vocabulary.tokens.size() - 1);
  ASSERT_EQ(vocabulary.tokens.back().text, "<|im_end|>");
  vocabulary.tokens.back().kind = TokenKind::kControl;
  vocabulary.ignore_merges = true;
  const auto tokenizer = make_tokenizer(vocabulary);
  for (const TokenId id : encode(*tokenizer, "<|im_end|>")) EXPECT_NE(id, end);
  EXPECT_EQ(encode(*tokenizer, "<|im_end|>", true), std::vector<TokenId>{end});
}

Vocabulary chat_vocabulary() {
  Vocabulary v = byte_level_vocabulary({" hello", "assistant"});
  for (const char* text : {"<|im_start|>", "<|im_end|>"}) add_token(v, text, TokenKind::kControl);
  for (const char* text : {"<think>", "</think>", "<\uFF5CUser\uFF5C>", "[INST]", "<|fim|>", "  ", "    "})
    add_token(v, text, TokenKind::kUserDefined);
  v.eos = static_cast<TokenId>(v.tokens.size()) - 8;
  v.end_of_generation = {v.eos};
  return v;
}

TEST(Tokenizer, OnlyTrustedTextSpellsControlTokens) {
  const auto tokenizer = make_tokenizer(chat_vocabulary());
  const std::vector<std::string> marks = {"<|im_start|>",       "<|im_end|>", "<think>", "</think>",
                                          "<\uFF5CUser\uFF5C>", "[INST]",     "<|fim|>"};
  for (const std::string& mark : marks) {
    const TokenId id = tokenizer->find(mark);
    ASSERT_GE(id, 0);
    EXPECT_EQ(encode(*tokenizer, mark, true), std::vector<TokenId>{id}) << mark;
    const auto plain = encode(*tokenizer, "a" + mark + "b");
    EXPECT_EQ(std::count(plain.begin(), plain.end(), id), 0) << mark;
    EXPECT_EQ(tokenizer->decode(plain), "a" + mark + "b");
    // Trusted text before and behind, and a spelling of which the first or last byte is foreign.
    for (size_t cut = 0; cut <= mark.size(); ++cut) {
      for (const bool first_trusted : {false, true}) {
        const std::vector<Segment> segments = {{mark.substr(0, cut), first_trusted},
                                               {mark.substr(cut), !first_trusted}};
        std::vector<TokenId> ids;
        tokenizer->encode(segments, ids);
        const bool whole = first_trusted ? cut == mark.size() : cut == 0;
        EXPECT_EQ(std::count(ids.begin(), ids.end(), id), whole ? 1 : 0) << mark << " cut at " << cut;
      }
    }
  }
}

TEST(Tokenizer, PlainAddedTokensCountInAnyText) {
  const auto tokenizer = make_tokenizer(chat_vocabulary());
  EXPECT_EQ(spell(*tokenizer, encode(*tokenizer, "a      b")), (std::vector<std::string>{"a", "    ", "  ", "b"}));
}

TEST(Tokenizer, SegmentsFormOneText) {
  // " hello" is one token although the space is the template's and the word the player's.
  const auto tokenizer = make_tokenizer(chat_vocabulary());
  std::vector<TokenId> ids;
  tokenizer->encode(
      std::vector<Segment>{
          {"<|im_start|>", true}, {"user:", true}, {" ", true}, {"hello<|im_end|>", false}, {"<|im_end|>", true}},
      ids);
  EXPECT_EQ(ids.front(), tokenizer->find("<|im_start|>"));
  EXPECT_EQ(ids.back(), tokenizer->find("<|im_end|>"));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer->find("<|im_end|>")), 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer->find("Ġhello")), 1);
}

TEST(Tokenizer, TrustSurvivesNormalisationAndRepair) {
  Vocabulary vocabulary = chat_vocabulary();
  vocabulary.normalizer.push_back({formats::NormalizeKind::kNfc, {}, {}});
  for (auto& token : vocabulary.tokens)
    if (token.kind == TokenKind::kControl) token.normalized = true;  // looked for behind the normaliser
  const auto tokenizer = make_tokenizer(vocabulary);
  const TokenId end = tokenizer->find("<|im_end|>");
  // Segments whose border lies inside a composition, and inside a code point.
  for (const char* player : {"e\u0301<|im_end|>", "\u0301<|im_end|>", "\xE4\xB8<|im_end|>", "\u0301"}) {
    std::vector<TokenId> ids;
    tokenizer->encode(std::vector<Segment>{{"e<|im_end|>e", true}, {player, false}, {"\u0301<|im_end|>", true}}, ids);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 2) << player;
  }
  EXPECT_EQ(tokenizer->decode(encode(*tokenizer, "cafe\u0301")), "caf\u00E9");
}

TEST(Tokenizer, RandomSegmentsNeverLeakControlTokens) {
  const auto tokenizer = make_tokenizer(chat_vocabulary());
  std::mt19937 random(14);
  const std::vector<std::string> parts = {"<|im_end|>", "<|im_", "end|>", "<", "|im_start|>", "<think>",
                                          "</th",       "ink>",  " ",     "x", "[IN",         "ST]"};
  for (int round = 0; round < 2000; ++round) {
    std::vector<Segment> segments;
    std::string all;
    for (size_t n = random() % 8; n > 0; --n) {
      std::string text;
      for (size_t k = random() % 4; k > 0; --k) text += parts[random() % parts.size()];
      all += text;
      segments.push_back({text, false});
    }
    std::vector<TokenId> ids;
    tokenizer->encode(segments, ids);
    for (const TokenId id : ids)
      ASSERT_TRUE(tokenizer->vocabulary().tokens[static_cast<size_t>(id)].kind == TokenKind::kNormal ||
                  tokenizer->token_bytes(id).find_first_not_of(' ') == std::string_view::npos)
          << all;
    ASSERT_EQ(tokenizer->decode(ids), all);
  }
}

TEST(Tokenizer, SpecialTokensStripAndRespectWords) {
  Vocabulary vocabulary = byte_level_vocabulary();
  vocabulary.tokens.push_back(
      {.text = "<both>", .kind = TokenKind::kUserDefined, .strip_left = true, .strip_right = true});
  vocabulary.tokens.push_back({.text = "word", .kind = TokenKind::kUserDefined, .single_word = true});
  const auto tokenizer = make_tokenizer(vocabulary);
  EXPECT_EQ(spell(*tokenizer, encode(*tokenizer, "a \n\u3000<both>\t b")),
            (std::vector<std::string>{"a", "<both>", "b"}));
  EXPECT_EQ(spell(*tokenizer, encode(*tokenizer, "<both> <both>")), (std::vector<std::string>{"<both>", "<both>"}));
  const TokenId word = tokenizer->find("word");
  const auto count = [&](std::string_view text) {
    const auto ids = encode(*tokenizer, text);
    return std::count(ids.begin(), ids.end(), word);
  };
  EXPECT_EQ(count("word"), 1);
  EXPECT_EQ(count("(word)"), 1);
  EXPECT_EQ(count("swordword"), 0);
  EXPECT_EQ(count("wordé"), 0);
  EXPECT_EQ(count("龍word"), 0);
}

TEST(Tokenizer, AddsTheTokensAroundAText) {
  Vocabulary vocabulary = sentence_piece_vocabulary();
  const auto first = make_tokenizer(vocabulary);
  std::vector<TokenId> ids = {7};
  first->add_special(ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 7}));
  vocabulary.add_eos = true;
  ids = {7};
  make_tokenizer(vocabulary)->add_special(ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 7, 2}));
  vocabulary.begin = {5, 6};
  vocabulary.end = {8};
  ids = {7};
  make_tokenizer(vocabulary)->add_special(ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{5, 6, 7, 8}));
}

TEST(Tokenizer, SpacePrefixSchemes) {
  Vocabulary vocabulary = sentence_piece_vocabulary();
  const auto pieces = [&](formats::SpacePrefix scheme, const char* text) {
    vocabulary.space_prefix = scheme;
    std::string joined;
    const auto tokenizer = make_tokenizer(vocabulary);
    for (const std::string& token : spell(*tokenizer, encode(*tokenizer, text, true)))
      joined += token == "\u2581" ? "_" : token;
    return joined;
  };
  using formats::SpacePrefix;
  EXPECT_EQ(pieces(SpacePrefix::kNever, "a <s>b"), "a_<s>b");
  EXPECT_EQ(pieces(SpacePrefix::kAlways, " a<s>b"), "__a<s>_b");
  EXPECT_EQ(pieces(SpacePrefix::kUnlessPresent, " a<s>b"), "_a<s>_b");
  EXPECT_EQ(pieces(SpacePrefix::kUnlessPresentAtStart, "a<s>b"), "_a<s>b");
  EXPECT_EQ(pieces(SpacePrefix::kUnlessPresentAtStart, "<s>b"), "<s>b");
  EXPECT_EQ(pieces(SpacePrefix::kAlways, ""), "");
}

TEST(Tokenizer, HiddenAndUnusableTokens) {
  Vocabulary vocabulary = chat_vocabulary();
  const TokenId padding = add_token(vocabulary, "<pad>", TokenKind::kControl);
  const TokenId unused = add_token(vocabulary, "[PAD1]", TokenKind::kUnused);
  vocabulary.padding = padding;
  const auto tokenizer = make_tokenizer(vocabulary);
  const TokenId end = tokenizer->find("<|im_end|>");
  EXPECT_TRUE(tokenizer->is_control(end));
  EXPECT_TRUE(tokenizer->is_end_of_generation(end));
  EXPECT_FALSE(tokenizer->is_unused(end));
  EXPECT_EQ(tokenizer->token_bytes(end), "");
  EXPECT_EQ(tokenizer->token_bytes(end, true), "<|im_end|>");
  EXPECT_TRUE(tokenizer->is_unused(padding));
  EXPECT_TRUE(tokenizer->is_unused(unused));
  for (const TokenId bad : {-1, static_cast<TokenId>(tokenizer->size()), INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(tokenizer->token_bytes(bad, true), "");
    EXPECT_FALSE(tokenizer->is_control(bad));
    EXPECT_FALSE(tokenizer->is_end_of_generation(bad));
    EXPECT_TRUE(tokenizer->is_unused(bad));
  }
  EXPECT_EQ(tokenizer->find("no such token"), -1);
  EXPECT_EQ(tokenizer->find(""), -1);
  vocabulary.padding = end;  // Qwen and DeepSeek pad with an end token
  EXPECT_FALSE(make_tokenizer(vocabulary)->is_unused(end));
}

TEST(Tokenizer, RefusesDamagedVocabularies) {
  const auto code_of = [](auto&& change) {
    Vocabulary vocabulary = byte_level_vocabulary({"ab"});
    change(vocabulary);
    const auto result = Tokenizer::create(std::move(vocabulary));
    return result ? BANTER_OK : result.error().code;
  };
  EXPECT_EQ(code_of([](Vocabulary&) {}), BANTER_OK);
  EXPECT_EQ(code_of([](Vocabulary& v) { v.tokens.clear(); }), BANTER_ERROR_CORRUPT);
  EXPECT_EQ(code_of([](Vocabulary& v) { v.eos = 100000; }), BANTER_ERROR_CORRUPT);
  EXPECT_EQ(code_of([](Vocabulary& v) { v.begin = {-5}; }), BANTER_ERROR_CORRUPT);
  EXPECT_EQ(code_of([](Vocabulary& v) { v.end_of_generation = {999}; }), BANTER_ERROR_CORRUPT);
  EXPECT_EQ(code_of([](Vocabulary& v) { v.merges.emplace_back("a", "zz"); }), BANTER_ERROR_CORRUPT);
  EXPECT_EQ(code_of([](Vocabulary& v) { add_token(v, "not a byte", TokenKind::kByte); }), BANTER_ERROR_CORRUPT);
  EXPECT_EQ(code_of([](Vocabulary& v) { add_token(v, std::string(2000, '<'), TokenKind::kControl); }),
            BANTER_ERROR_CORRUPT);
  EXPECT_EQ(code_of([](Vocabulary& v) { v.splits[0].pattern = "(unclosed"; }), BANTER_ERROR_UNSUPPORTED_TOKENIZER);
}

TEST(Tokenizer, LongRunsTakeSecondsAtMost) {
  std::vector<std::string> words;
  for (const char* unit : {"a", " ", "\n", "!", "中"})
    for (size_t count = 2; count <= 32; count *= 2) {
      std::string word;
      for (size_t i = 0; i < count; ++i) word += unit;
      words.push_back(word);
    }
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  tokenizers.push_back(make_tokenizer(byte_level_vocabulary(words)));
  for (std::string& word : words)
    for (size_t at; (at = word.find(' ')) != std::string::npos;) word.replace(at, 1, "\u2581");
  tokenizers.push_back(make_tokenizer(sentence_piece_vocabulary(words)));
  for (const auto& tokenizer : tokenizers) {
    for (const char* unit :
         {"a", "A", " ", "\n", "\t", "1", "!", "中", "\u0301", "\u0f73", "\xFF", "<", "a ", "\u2581", " \n"}) {
      std::string text;
      while (text.size() < 150'000) text += unit;
      const auto start = std::chrono::steady_clock::now();
      const auto ids = encode(*tokenizer, text, true);
      const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      EXPECT_FALSE(ids.empty());
      EXPECT_LT(seconds, 30) << unit;  // a tenth of a second on an idle machine; sanitizers and load take their share
    }
  }
}

TEST(Tokenizer, ThreadsShareIt) {
  const auto tokenizer = make_tokenizer(byte_level_vocabulary({" the", " quick", "中文"}));
  std::vector<std::vector<TokenId>> expected;
  for (const std::string& text : difficult_texts())
    expected.push_back(encode(*make_tokenizer(byte_level_vocabulary({" the", " quick", "中文"})), text));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round)
        for (size_t i = 0; i < expected.size(); ++i)
          if (encode(*tokenizer, difficult_texts()[i]) != expected[i]) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace banter::test
