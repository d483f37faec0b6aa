// `banter tokenize`: JSON lines of text in, JSON lines of token ids and decoded text out.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "commands.h"
#include "formats/gguf.h"
#include "formats/vocabulary.h"
#include "text/tokenizer.h"

namespace {

using banter::Error;
using banter::Result;
using banter::formats::Vocabulary;
using Json = nlohmann::ordered_json;

Result<std::string> read_file(const std::string& path) {
  Result<std::shared_ptr<banter::ByteSource>> source = banter::open_file(path);
  if (!source) return source.error();
  std::string text(static_cast<size_t>((*source)->size()), '\0');
  if (Result<void> ok = (*source)->read_at(0, std::as_writable_bytes(std::span(text))); !ok) return ok.error();
  return text;
}

// Where a tokenizer_config.json stands beside the tokenizer.json, its text; else nothing.
std::string config_beside(const std::string& path) {
  const size_t slash = path.find_last_of("/\\");
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  Result<std::string> config = read_file(folder + "tokenizer_config.json");
  return config ? *config : std::string();
}

Result<Vocabulary> load_vocabulary(const std::string& path) {
  Result<std::shared_ptr<banter::ByteSource>> source = banter::open_file(path);
  if (!source) return source.error();
  char magic[4] = {};
  if ((*source)->size() >= sizeof magic) {
    if (Result<void> ok = (*source)->read_at(0, std::as_writable_bytes(std::span(magic))); !ok) return ok.error();
  }
  if (std::string_view(magic, sizeof magic) == "GGUF") {
    Result<banter::formats::Gguf> file = banter::formats::Gguf::open(path);
    if (!file) return file.error();
    return banter::formats::vocabulary_from_gguf(*file);
  }
  Result<std::string> text = read_file(path);
  if (!text) return text.error();
  return banter::formats::vocabulary_from_json(*text, config_beside(path));
}

// The answer to one line; `good` turns false where there is none.
Json answer(const banter::text::Tokenizer& tokenizer, const std::string& line, bool special, bool& good) {
  const Json request = Json::parse(line, nullptr, false);
  const auto refuse = [&](const char* why) {
    good = false;
    return Json{{"error", why}};
  };
  if (request.is_discarded()) return refuse("the line is no JSON");
  if (!request.is_object() || !request.contains("text") || !request["text"].is_string())
    return refuse("the line is no object with a string \"text\"");
  std::vector<banter::text::TokenId> ids;
  tokenizer.encode(request["text"].get_ref<const std::string&>(), true, ids);
  std::string decoded = tokenizer.decode(ids, true);
  if (special) tokenizer.add_special(ids);
  return Json{{"ids", ids}, {"decoded", std::move(decoded)}};
}

}  // namespace

int command_tokenize(int argc, char** argv) {
  CLI::App app(
      "Reads JSON lines {\"text\": …} from stdin and writes {\"ids\": […], \"decoded\": …} for each.\n"
      "Control tokens spelled in the text become those tokens. \"decoded\" is the text of the ids without what\n"
      "--special adds. A line that cannot be read gives {\"error\": …}, and the exit code 1 at the end.",
      "banter tokenize");
  std::string model;
  bool special = false;
  app.add_option("--model", model, "a GGUF file or a tokenizer.json (with its tokenizer_config.json beside it)")
      ->required();
  app.add_flag("--special", special, "add the model's begin and end tokens");
  CLI11_PARSE(app, argc, argv);

  Result<Vocabulary> vocabulary = load_vocabulary(model);
  if (!vocabulary) {
    std::fprintf(stderr, "banter tokenize: %s\n", vocabulary.error().message.c_str());
    return 2;
  }
  Result<std::unique_ptr<banter::text::Tokenizer>> tokenizer = banter::text::Tokenizer::create(std::move(*vocabulary));
  if (!tokenizer) {
    std::fprintf(stderr, "banter tokenize: %s\n", tokenizer.error().message.c_str());
    return 2;
  }
  bool good = true;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json reply = answer(**tokenizer, line, special, good);
    // ASCII only: readers that also split lines at U+2028 or U+0085 see one line per text.
    std::cout << reply.dump(-1, ' ', true, Json::error_handler_t::replace) << '\n';
  }
  std::cout.flush();
  return good && std::cout ? 0 : 1;
}
