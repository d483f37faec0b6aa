// Real vocabularies against what independent implementations made of the same texts. The vocabularies belong to their
// vendors and are not shipped: BANTER_GOLDENS names the folder that holds tokenizer_*.jsonl and either the unpacked
// folders tokenizers/ and vocab_gguf/ or their .tar.xz archives.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "support/temp_folder.h"
#include "tokenizer_fixture.h"

namespace banter::test {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TokenizerGoldens : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("BANTER_GOLDENS");
    if (folder == nullptr) GTEST_SKIP() << "BANTER_GOLDENS does not name the folder of golden files";
    goldens_ = folder;
  }

  // The folder `name`, unpacked if need be; empty where there is neither folder nor archive.
  fs::path unpacked(const char* name) {
    if (fs::is_directory(goldens_ / name)) return goldens_ / name;
    const fs::path archive = goldens_ / (std::string(name) + ".tar.xz");
    if (!fs::exists(archive)) return {};
    const std::string command = "tar -xJf '" + archive.string() + "' -C '" + temp_.path() + "'";
    return std::system(command.c_str()) == 0 ? fs::path(temp_.path()) / name : fs::path();
  }

  // The vocabularies that lie with the models rather than in the archive.
  fs::path with_models(const std::string& name) const {
    const fs::path models = goldens_.parent_path() / "models";
    if (name == "stories260k") return models / "stories260K" / "hf";
    if (name == "babyllama105") return models / "babyllama105" / "hf-bf16";
    return {};
  }

  static void check(const Tokenizer& tokenizer, const fs::path& golden) {
    std::ifstream lines(golden);
    size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      const auto row = nlohmann::json::parse(line);
      const auto text = row["text"].get<std::string>();
      std::vector<TokenId> ids = encode(tokenizer, text, true);
      EXPECT_EQ(ids, row["ids"].get<std::vector<TokenId>>()) << text;
      EXPECT_EQ(tokenizer.decode(ids, true), row["decoded"].get<std::string>()) << text;
      EXPECT_EQ(tokenizer.decode(ids, false), row["decoded_skip"].get<std::string>()) << text;
      tokenizer.add_special(ids);
      EXPECT_EQ(ids, row["ids_special"].get<std::vector<TokenId>>()) << text;
      // Untrusted, the same text holds no control token, and nothing is lost of it.
      std::vector<TokenId> plain = encode(tokenizer, text);
      for (const TokenId id : plain) EXPECT_FALSE(tokenizer.is_control(id)) << text;
      text::StreamDecoder stream(tokenizer, true);
      std::string streamed;
      for (const TokenId id : plain) {
        std::string delta;
        stream.push(id, delta);
        EXPECT_TRUE(text::utf8_is_valid(delta));
        streamed += delta;
      }
      EXPECT_EQ(streamed, tokenizer.decode(plain)) << text;
    }
    EXPECT_GE(count, 400u) << golden;
  }

  fs::path goldens_;
  TempFolder temp_;
};

TEST_F(TokenizerGoldens, TokenizerJsonFiles) {
  const fs::path archive = unpacked("tokenizers");
  size_t checked = 0;
  for (const auto& entry : fs::directory_iterator(goldens_)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with("tokenizer_") || !file.ends_with(".jsonl")) continue;
    const std::string name = file.substr(10, file.size() - 16);
    fs::path folder = archive / name;
    if (archive.empty() || !fs::exists(folder)) folder = with_models(name);
    if (folder.empty() || !fs::exists(folder / "tokenizer.json")) continue;
    SCOPED_TRACE(name);
    auto vocabulary = formats::vocabulary_from_json(read_file(folder / "tokenizer.json"),
                                                    read_file(folder / "tokenizer_config.json"));
    ASSERT_TRUE(vocabulary) << vocabulary.error().message;
    const auto tokenizer = make_tokenizer(std::move(*vocabulary));
    ASSERT_NE(tokenizer, nullptr);
    check(*tokenizer, entry.path());
    ++checked;
  }
  EXPECT_GE(checked, 10u);
}

TEST_F(TokenizerGoldens, GgufFiles) {
  const fs::path folder = unpacked("vocab_gguf");
  if (folder.empty()) GTEST_SKIP() << "no vocab_gguf in " << goldens_;
  size_t checked = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    const std::string path = entry.path().string();
    if (!fs::exists(path + ".inp")) continue;
    SCOPED_TRACE(path);
    auto file = formats::Gguf::open(path);
    ASSERT_TRUE(file) << file.error().message;
    auto vocabulary = formats::vocabulary_from_gguf(*file);
    if (path.find("bert") != std::string::npos) {
      EXPECT_FALSE(vocabulary);
      continue;
    }
    ASSERT_TRUE(vocabulary) << vocabulary.error().message;
    const auto tokenizer = make_tokenizer(std::move(*vocabulary));
    ASSERT_NE(tokenizer, nullptr);
    const std::string separator = "\n__ggml_vocab_test__\n", input = read_file(path + ".inp");
    std::ifstream outputs(path + ".out");
    for (size_t begin = 0; begin <= input.size();) {
      const size_t end = std::min(input.find(separator, begin), input.size());
      std::string line;
      std::getline(outputs, line);  // the last text may be empty, and its line missing
      std::istringstream numbers(line);
      const std::vector<TokenId> expected{std::istream_iterator<TokenId>(numbers), {}};
      EXPECT_EQ(encode(*tokenizer, input.substr(begin, end - begin)), expected);
      begin = end + separator.size();
    }
    ++checked;
  }
  EXPECT_GE(checked, 8u);
}

}  // namespace
}  // namespace banter::test
