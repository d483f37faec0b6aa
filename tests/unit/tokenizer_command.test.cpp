// `banter tokenize` as a user runs it: files in, JSON lines in and out, exit codes.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "commands.h"
#include "support/gguf_writer.h"
#include "support/temp_folder.h"
#include "tokenizer_fixture.h"

namespace banter::test {
namespace {

struct Outcome {
  int code;
  std::vector<nlohmann::json> lines;
};

/** Runs the command with `input` on its stdin. */
Outcome run(std::vector<std::string> arguments, const std::string& input) {
  std::istringstream in(input);
  std::ostringstream out;
  std::streambuf* const old_in = std::cin.rdbuf(in.rdbuf());
  std::streambuf* const old_out = std::cout.rdbuf(out.rdbuf());
  std::cin.clear();
  arguments.insert(arguments.begin(), "tokenize");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  const int code = command_tokenize(static_cast<int>(argv.size()), argv.data());
  std::cin.rdbuf(old_in);
  std::cout.rdbuf(old_out);
  Outcome outcome{code, {}};
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);)
    outcome.lines.push_back(nlohmann::json::parse(line, nullptr, false));
  return outcome;
}

class TokenizeCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const Vocabulary source = sentence_piece_vocabulary();
    std::vector<std::string> texts;
    std::vector<float> scores;
    std::vector<int32_t> types;
    for (const auto& token : source.tokens) {
      texts.push_back(token.text);
      scores.push_back(token.score);
      types.push_back(token.kind == TokenKind::kUnknown   ? 2
                      : token.kind == TokenKind::kControl ? 3
                      : token.kind == TokenKind::kByte    ? 6
                                                          : 1);
    }
    gguf_ = folder_.path() + "/model.gguf";
    ASSERT_TRUE(GgufWriter()
                    .set_string("tokenizer.ggml.model", "llama")
                    .set_strings("tokenizer.ggml.tokens", texts)
                    .set_f32s("tokenizer.ggml.scores", scores)
                    .set_i32s("tokenizer.ggml.token_type", types)
                    .write(gguf_));
  }
  std::string put(const char* name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  TempFolder folder_;
  std::string gguf_;
};

TEST_F(TokenizeCommand, AnswersLineByLine) {
  const Outcome outcome = run({"--model", gguf_}, "{\"text\": \"a<s>\\u2028\"}\n\n{\"text\": \"\", \"more\": 1}\n");
  EXPECT_EQ(outcome.code, 0);
  ASSERT_EQ(outcome.lines.size(), 2u);
  EXPECT_EQ(outcome.lines[0]["ids"], (std::vector<int>{259, 260, 1, 259, 3 + 0xE2, 3 + 0x80, 3 + 0xA8}));
  EXPECT_EQ(outcome.lines[0]["decoded"], "a<s> \u2028");
  EXPECT_EQ(outcome.lines[1]["ids"], std::vector<int>{});
}

TEST_F(TokenizeCommand, AddsSpecialTokens) {
  const Outcome outcome = run({"--model", gguf_, "--special"}, "{\"text\": \"a\"}");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.lines.at(0)["ids"], (std::vector<int>{1, 259, 260}));
  EXPECT_EQ(outcome.lines.at(0)["decoded"], "a");
}

TEST_F(TokenizeCommand, BadLinesAreAnsweredAndCounted) {
  const Outcome outcome =
      run({"--model", gguf_}, "nonsense\n{\"text\": 3}\n[]\n{\"text\": \"\\ud800\"}\n{\"text\": \"a\"}\n");
  EXPECT_NE(outcome.code, 0);
  ASSERT_EQ(outcome.lines.size(), 5u);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(outcome.lines[i].contains("error")) << i;
  EXPECT_EQ(outcome.lines[4]["ids"], (std::vector<int>{259, 260}));
}

TEST_F(TokenizeCommand, ReadsTokenizerJsonWithItsConfig) {
  const std::string path = put("tokenizer.json", R"({"added_tokens": [{"id": 2, "content": "<end>", "special": true}],
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
  EXPECT_EQ(run({"--model", path}, "{\"text\": \"ab<end>\"}").lines.at(0)["ids"], (std::vector<int>{0, 1, 2}));
  put("tokenizer_config.json", "{broken");
  EXPECT_NE(run({"--model", path}, "").code, 0);
}

TEST_F(TokenizeCommand, BadModelsEndWithAnError) {
  EXPECT_NE(run({"--model", folder_.path() + "/missing"}, "").code, 0);
  EXPECT_NE(run({"--model", put("empty", "")}, "").code, 0);
  EXPECT_NE(run({"--model", put("cut.gguf", "GGUF\3")}, "").code, 0);
  EXPECT_NE(run({}, "").code, 0);
}

}  // namespace
}  // namespace banter::test
