// banter template: renders conversations with a chat template, one JSON line in, one out.
#include <algorithm>
#include <iostream>
#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include "base/byte_source.h"
#include "commands.h"
#include "formats/gguf.h"
#include "text/chat_template.h"

namespace {

using banter::Error;
using banter::Result;
using banter::text::ChatTemplate;
using banter::text::Json;
using banter::text::TemplateInput;

/** The template text of a file: of a GGUF its tokenizer.chat_template, of any other the whole file. */
Result<std::string> read_source(const std::string& path) {
  auto file = banter::open_file(path);
  if (!file) return file.error();
  const auto size = (*file)->size();
  constexpr uint64_t kLargest = uint64_t{512} << 10;  // parse() would refuse more
  std::string text(static_cast<size_t>(std::min(size, kLargest + 1)), '\0');
  if (auto read = (*file)->read_at(0, std::as_writable_bytes(std::span(text))); !read) return read.error();
  if (!text.starts_with("GGUF")) return text;
  auto gguf = banter::formats::Gguf::open(path);
  if (!gguf) return gguf.error();
  const std::string* found = gguf->get_string("tokenizer.chat_template");
  if (found == nullptr) {
    return Error{BANTER_ERROR_NO_TEMPLATE, "'" + path + "' holds no chat template; pass a Jinja file instead."};
  }
  return *found;
}

/** A token's text: absent or null means that the model has none. */
void read_token(const Json& line, const char* key, std::string* token, bool* has) {
  const auto found = line.find(key);
  *has = found != line.end() && found->is_string();
  if (*has) *token = found->get<std::string>();
}

Result<TemplateInput> read_input(const std::string& text) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) return Error{BANTER_ERROR_INVALID_ARGUMENT, "This line is not a JSON object."};
  TemplateInput input;
  input.messages = line.value("messages", Json::array());
  const auto prompt = line.find("add_generation_prompt");
  if (prompt != line.end() && !prompt->is_boolean()) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT, "add_generation_prompt must be true or false."};
  }
  if (prompt != line.end()) input.add_generation_prompt = prompt->get<bool>();
  const auto extra = line.find("extra");
  if (extra != line.end() && extra->is_object()) input.extra = *extra;
  read_token(line, "bos_token", &input.bos_token, &input.has_bos);
  read_token(line, "eos_token", &input.eos_token, &input.has_eos);
  const auto now = line.find("now_unix_seconds");
  if (now != line.end() && now->is_number_integer()) input.now_unix_seconds = now->get<int64_t>();
  return input;
}

/** The answer to one line. @param segments  also tell which parts are the template's own text */
Json answer(const ChatTemplate& chat_template, const std::string& line, bool segments) {
  const auto input = read_input(line);
  if (!input) return {{"error", input.error().message}};
  const auto rendered = chat_template.render(*input);
  if (!rendered) return {{"error", rendered.error().message}};
  Json reply = {{"rendered", banter::text::join(*rendered)}};
  if (segments) {
    reply["segments"] = Json::array();
    for (const auto& segment : *rendered)
      reply["segments"].push_back({{"text", segment.text}, {"trusted", segment.trusted}});
  }
  return reply;
}

}  // namespace

int command_template(int argc, char** argv) {
  CLI::App app{
      "Render conversations with a chat template. Reads JSON lines {\"messages\": …, \"add_generation_prompt\": "
      "…, \"extra\": {…}, \"bos_token\": …, \"eos_token\": …} from stdin, writes {\"rendered\": …} or "
      "{\"error\": …} per line.",
      "banter template"};
  std::string path;
  bool segments = false;
  app.add_option("--template", path, "Jinja file, or a GGUF with a chat template")->required();
  app.add_flag("--segments", segments, "also write which parts are the template's own text");
  CLI11_PARSE(app, argc, argv);

  const auto source = read_source(path);
  if (!source) {
    std::cerr << source.error().message << "\n";
    return 1;
  }
  const auto chat_template = ChatTemplate::parse(*source);
  if (!chat_template) {
    std::cerr << chat_template.error().message << "\n";
    return 1;
  }
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty()) continue;
    std::cout << answer(**chat_template, line, segments).dump(-1, ' ', false, Json::error_handler_t::replace)
              << std::endl;
  }
  return 0;
}
