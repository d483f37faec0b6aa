// tokenizer.json: the parts real files use, refusals by name, damage.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tokenizer_fixture.h"

namespace banter::test {
namespace {

using formats::vocabulary_from_json;
using Json = nlohmann::ordered_json;

Json added(int id, const char* content, bool special, bool normalized = false) {
  return {{"id", id},        {"content", content},       {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", normalized}, {"special", special}};
}

// A byte-level file as Qwen and Llama 3 write it, with the merges of "hello" and the tokens 300 and 301 added.
Json byte_level_file() {
  Json vocab = Json::object(), merges = Json::array();
  const Vocabulary small = byte_level_vocabulary({"hello", " you"});
  for (size_t i = 0; i < small.tokens.size(); ++i) vocab[small.tokens[i].text] = i;
  for (const auto& [left, right] : small.merges) merges.push_back(Json::array({left, right}));
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return {
      {"version", "1.0"},
      {"added_tokens",
       Json::array({added(300, "<|im_start|>", true), added(301, "<|im_end|>", true), added(302, "<think>", false)})},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         Json::array(
             {{{"type", "Split"}, {"pattern", {{"Regex", kQwenPattern}}}, {"behavior", "Isolated"}, {"invert", false}},
              byte_level})}}},
      {"post_processor", byte_level},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", ""},
        {"end_of_word_suffix", ""},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocab},
        {"merges", merges}}}};
}

// The 105-token file of safetensors_hf notes: x, y, a, b and the space sign; no byte tokens.
Json sentence_piece_file(bool resaved) {
  Json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}, {"\u2581", 3}, {"a", 5}, {"b", 23}, {"x", 37}, {"y", 15}};
  Json file = {{"added_tokens", Json::array({added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true)})},
               {"post_processor",
                {{"type", "TemplateProcessing"},
                 {"single", Json::array({{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                                         {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
                 {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
               {"decoder",
                {{"type", "Sequence"},
                 {"decoders", Json::array({{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                                           {{"type", "Fuse"}},
                                           {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}})}}},
               {"model",
                {{"type", "BPE"},
                 {"unk_token", "<unk>"},
                 {"fuse_unk", true},
                 {"byte_fallback", false},
                 {"vocab", vocab},
                 {"merges", Json::array()}}}};
  if (!resaved) {
    file["normalizer"] = {
        {"type", "Sequence"},
        {"normalizers", Json::array({{{"type", "Prepend"}, {"prepend", "\u2581"}},
                                     {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}})}};
    file["pre_tokenizer"] = nullptr;
  } else {
    file["normalizer"] = nullptr;
    file["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", false}};
    file["model"]["unk_token"] = nullptr;
    file["model"]["byte_fallback"] = true;
  }
  return file;
}

std::unique_ptr<Tokenizer> load(const Json& file, const std::string& config = {}) {
  auto vocabulary = vocabulary_from_json(file.dump(), config);
  EXPECT_TRUE(vocabulary) << (vocabulary ? "" : vocabulary.error().message);
  return vocabulary ? make_tokenizer(std::move(*vocabulary)) : nullptr;
}

Error refusal(const Json& file) {
  auto vocabulary = vocabulary_from_json(file.dump());
  EXPECT_FALSE(vocabulary) << file.dump().substr(0, 200);
  return vocabulary ? Error{BANTER_OK, {}} : vocabulary.error();
}

TEST(TokenizerJson, ByteLevel) {
  const auto tokenizer = load(
      byte_level_file(), R"({"bos_token": null, "eos_token": {"content": "<|im_end|>"}, "pad_token": "<|im_start|>"})");
  EXPECT_EQ(spell(*tokenizer, encode(*tokenizer, "hello you 龍", true)),
            (std::vector<std::string>{"hello", "Ġyou", "Ġ", "é", "¾", "į"}));
  EXPECT_EQ(encode(*tokenizer, "<|im_start|>hello<|im_end|>", true).front(), 300);
  EXPECT_EQ(tokenizer->vocabulary().eos, 301);
  EXPECT_EQ(tokenizer->vocabulary().bos, -1);
  EXPECT_EQ(tokenizer->vocabulary().padding, 300);
  EXPECT_TRUE(tokenizer->is_end_of_generation(301));
  EXPECT_TRUE(tokenizer->is_unused(280));  // a hole between the vocabulary and the added tokens
  EXPECT_EQ(tokenizer->decode(encode(*tokenizer, "e\u0301")), "é");
  EXPECT_EQ(tokenizer->vocabulary().tokens[302].kind, TokenKind::kUserDefined);
}

TEST(TokenizerJson, OldMergeLines) {
  Json file = byte_level_file(), lines = Json::array({"#version: 0.2"});
  for (const auto& pair : file["model"]["merges"])
    lines.push_back(pair[0].get<std::string>() + " " + pair[1].get<std::string>());
  file["model"]["merges"] = lines;
  const auto tokenizer = load(file);
  EXPECT_EQ(spell(*tokenizer, encode(*tokenizer, "hello")), std::vector<std::string>{"hello"});
}

TEST(TokenizerJson, TheSameTokenizerInTwoSpellings) {
  // Vectors of the original library: text, the file as first written, the file as saved again by newer versions.
  struct Row {
    const char* text;
    std::vector<TokenId> original, resaved;
  };
  const Row rows[] = {{" a", {1, 3, 3, 5}, {1, 3, 5}},
                      {"  a", {1, 3, 3, 3, 5}, {1, 3, 3, 5}},
                      {"a b", {1, 3, 5, 3, 23}, {1, 3, 5, 3, 23}},
                      {"a\nb", {1, 3, 5, 0, 23}, {1, 3, 5, 23}},
                      {"x ☃ y", {1, 3, 37, 3, 0, 3, 15}, {1, 3, 37, 3, 3, 15}},
                      {"a<s>b", {1, 3, 5, 1, 3, 23}, {1, 3, 5, 1, 3, 23}},
                      {"a </s> b", {1, 3, 5, 3, 2, 3, 3, 23}, {1, 3, 5, 3, 2, 3, 23}},
                      {"", {1}, {1}}};
  const auto original = load(sentence_piece_file(false)), resaved = load(sentence_piece_file(true));
  for (const Row& row : rows) {
    auto ids = encode(*original, row.text, true);
    original->add_special(ids);
    EXPECT_EQ(ids, row.original) << row.text;
    ids = encode(*resaved, row.text, true);
    resaved->add_special(ids);
    EXPECT_EQ(ids, row.resaved) << row.text;
  }
  EXPECT_EQ(original->vocabulary().bos, 1);
  EXPECT_TRUE(original->vocabulary().add_bos);
  EXPECT_EQ(original->decode(encode(*original, "a b")), "a b");
}

TEST(TokenizerJson, NormalizedAddedTokensAreSpelledNormalised) {
  Json file = byte_level_file();
  file["added_tokens"].push_back(added(303, "caf\u00E9", false, true));
  const auto tokenizer = load(file);
  EXPECT_EQ(encode(*tokenizer, "cafe\u0301"), std::vector<TokenId>{303});
  file["added_tokens"].back()["normalized"] = false;
  EXPECT_NE(encode(*load(file), "cafe\u0301"), std::vector<TokenId>{303});
}

TEST(TokenizerJson, ByteLevelVariants) {
  Json file = byte_level_file();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}};
  const auto gpt2 = load(file);
  EXPECT_EQ(spell(*gpt2, encode(*gpt2, "you you")), (std::vector<std::string>{"Ġyou", "Ġyou"}));
  EXPECT_EQ(spell(*gpt2, encode(*gpt2, " you")), (std::vector<std::string>{"Ġyou"}));
  Json digits = {{"type", "Sequence"},
                 {"pretokenizers", Json::array({{{"type", "Digits"}, {"individual_digits", true}},
                                                {{"type", "ByteLevel"}, {"add_prefix_space", false}}})}};
  file["pre_tokenizer"] = digits;
  EXPECT_EQ(load(file)->vocabulary().splits.size(), 2u);
  // Falcon: stages behind ByteLevel see the byte alphabet.
  file["pre_tokenizer"]["pretokenizers"] = Json::array({{{"type", "Punctuation"}, {"behavior", "Contiguous"}},
                                                        {{"type", "ByteLevel"}, {"add_prefix_space", false}},
                                                        {{"type", "Digits"}, {"individual_digits", false}}});
  const auto falcon = load(file);
  EXPECT_FALSE(falcon->vocabulary().splits[1].on_byte_alphabet);
  EXPECT_TRUE(falcon->vocabulary().splits[2].on_byte_alphabet);
  EXPECT_EQ(falcon->decode(encode(*falcon, "a--b 12²")), "a--b 12²");
}

TEST(TokenizerJson, MetaspaceSchemes) {
  for (const auto& [scheme, first, behind] :
       {std::tuple{"always", true, true}, std::tuple{"first", true, false}, std::tuple{"never", false, false}}) {
    Json file = sentence_piece_file(true);
    file["pre_tokenizer"]["prepend_scheme"] = scheme;
    file["pre_tokenizer"]["split"] = true;
    const auto tokenizer = load(file);
    std::vector<TokenId> expected;
    if (first) expected.push_back(3);
    expected.insert(expected.end(), {5, 1});
    if (behind) expected.push_back(3);
    expected.insert(expected.end(), {23, 3, 5});
    EXPECT_EQ(encode(*tokenizer, "a<s>b a", true), expected) << scheme;
  }
  Json old = sentence_piece_file(true);
  old["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"add_prefix_space", false}};
  EXPECT_EQ(encode(*load(old), "a"), std::vector<TokenId>{5});
}

TEST(TokenizerJson, IgnoreMergesTakesAPieceWhole) {
  Json file = byte_level_file();
  file["model"]["vocab"]["xyz"] = 299;  // no merges lead to it
  EXPECT_EQ(encode(*load(file), "xyz").size(), 3u);
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(encode(*load(file), "xyz"), std::vector<TokenId>{299});
}

TEST(TokenizerJson, PostProcessorsOfOtherModels) {
  Json file = byte_level_file();
  file["post_processor"] = {
      {"type", "Sequence"},
      {"processors", Json::array({{{"type", "ByteLevel"}},
                                  {{"type", "TemplateProcessing"},
                                   {"single", Json::array({{{"SpecialToken", {{"id", "<|im_start|>"}}}},
                                                           {{"Sequence", {{"id", "A"}}}},
                                                           {{"SpecialToken", {{"id", "<|im_end|>"}}}}})},
                                   {"special_tokens",
                                    {{"<|im_start|>", {{"ids", {300, 104}}}}, {"<|im_end|>", {{"ids", {301}}}}}}}})}};
  const auto tokenizer = load(file);
  std::vector<TokenId> ids = {5};
  tokenizer->add_special(ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{300, 104, 5, 301}));
}

TEST(TokenizerJson, RefusesByName) {
  const auto expect = [](const Json& file, const char* name) {
    const Error error = refusal(file);
    EXPECT_EQ(error.code, BANTER_ERROR_UNSUPPORTED_TOKENIZER) << error.message;
    EXPECT_NE(error.message.find(name), std::string::npos) << error.message;
  };
  const auto with = [](const char* part, Json value) {
    Json file = byte_level_file();
    file[part] = std::move(value);
    return file;
  };
  for (const char* type : {"Lowercase", "StripAccents", "BertNormalizer", "Precompiled", "NFD"})
    expect(with("normalizer", {{"type", type}}), type);
  for (const char* type : {"BertPreTokenizer", "UnicodeScripts", "CharDelimiterSplit"})
    expect(with("pre_tokenizer", {{"type", type}}), type);
  for (const char* type : {"WordPiece", "BPEDecoder", "CTC"}) expect(with("decoder", {{"type", type}}), type);
  for (const char* type : {"BertProcessing", "RobertaProcessing"})
    expect(with("post_processor", {{"type", type}}), type);
  expect(with("normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "x"}}), "Replace");
  for (const char* type : {"WordPiece", "WordLevel", "Unigram"}) {
    Json file = byte_level_file();
    file["model"]["type"] = type;
    if (std::string_view(type) == "Unigram")
      file["model"]["vocab"] = Json::array({Json::array({"<unk>", 0.0}), Json::array({"a", -1.5})});
    expect(file, type);
  }
  Json file = byte_level_file();
  file["model"]["continuing_subword_prefix"] = "##";
  expect(file, "continuing_subword_prefix");
  file = byte_level_file();
  file["model"]["dropout"] = 0.1;
  expect(file, "dropout");
}

TEST(TokenizerJson, DamageIsAnError) {
  const auto code_of = [](std::string_view text) {
    const auto vocabulary = vocabulary_from_json(text);
    return vocabulary ? BANTER_OK : vocabulary.error().code;
  };
  const std::string good = byte_level_file().dump();
  EXPECT_EQ(code_of(good), BANTER_OK);
  for (const char* bad :
       {"", "{", "[]", "null", "3", "{\"model\": {\"type\": \"BPE\"}}", "{\"model\": {\"vocab\": {\"a\": -1}}}",
        "{\"model\": {\"vocab\": {\"a\": 99999999}}}", "{\"model\": {\"vocab\": {\"a\": \"b\"}}}",
        "{\"model\": {\"vocab\": {\"a\": {}}}}", "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [3]}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a b c\"]}}",
        "{\"model\": {\"vocab\": {\"a\": 0}}, \"added_tokens\": [{\"id\": 4294967296, \"content\": \"x\"}]}",
        "{\"model\": {\"vocab\": {\"a\": 0}}, \"added_tokens\": [{\"id\": 1.5, \"content\": \"x\"}]}",
        "{\"model\": {\"vocab\": {\"a\": 0}}, \"added_tokens\": {\"x\": 1}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"unk_token\": \"nix\"}}"})
    EXPECT_EQ(banter_result_class(code_of(bad)), BANTER_ERROR_CORRUPT) << bad;
  EXPECT_NE(code_of(std::string(100000, '[')), BANTER_OK);
  EXPECT_NE(code_of("{\"a\":" + std::string(100000, '[')), BANTER_OK);
  for (size_t size = 0; size < good.size(); size += 1 + size / 50)
    EXPECT_NE(code_of(std::string_view(good).substr(0, size)), BANTER_OK);
  EXPECT_FALSE(vocabulary_from_json(good, "{no config"));
}

}  // namespace
}  // namespace banter::test
