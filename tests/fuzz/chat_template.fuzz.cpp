// A template, optionally followed by a line "---" and JSON with its input. Whatever they are, parsing and rendering must
// end, within bounds, with text or with an error, twice the same; segments must alternate and be valid UTF-8.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/chat_template.h"
#include "text/jinja/text.h"

namespace {

using banter::text::ChatTemplate;
using banter::text::Json;
using banter::text::TemplateInput;

constexpr std::string_view kDefaultInput = R"({"messages": [
  {"role": "system", "content": " sys é "}, {"role": "user", "content": "hello <|x|>"},
  {"role": "assistant", "content": null, "tool_calls": [{"id": "abcdefghi", "function": {"name": "f", "arguments": {"a": 1}}}]},
  {"role": "tool", "content": "{\"r\": [1, 2.5]}"}],
  "extra": {"x": "α<b>", "n": 7, "f": -2.5, "l": [3, 1, "2", null, true], "d": {"k": [1], "m": {"z": "y"}}, "tools": [{"n": 1}]}})";

void require(bool condition) {
  if (!condition) std::abort();
}

/** The outcome as one text, after checking its form. */
std::string outcome(const ChatTemplate& parsed, const TemplateInput& input) {
  const auto rendered = parsed.render(input);
  if (!rendered) {
    require(rendered.error().code == BANTER_ERROR_TEMPLATE);
    return "error: " + rendered.error().message;
  }
  std::string text;
  for (size_t i = 0; i < rendered->size(); ++i) {
    const auto& segment = (*rendered)[i];
    require(!segment.text.empty());
    require(i == 0 || segment.trusted != (*rendered)[i - 1].trusted);
    require(banter::text::jinja::sanitize_utf8(segment.text) == segment.text);
    text += segment.text;
  }
  require(text == banter::text::join(*rendered));
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(bytes), size);
  const size_t border = all.find("\n---\n");
  const auto source = all.substr(0, border);
  Json json;
  if (border != std::string_view::npos) json = Json::parse(all.substr(border + 5), nullptr, false);
  if (!json.is_object()) json = Json::parse(kDefaultInput);

  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) {
    require(parsed.error().code == BANTER_ERROR_TEMPLATE && !parsed.error().message.empty());
    return 0;
  }
  TemplateInput input;
  if (json.contains("messages")) input.messages = json["messages"];
  if (json.contains("extra")) input.extra = json["extra"];
  input.bos_token = "<s>";
  input.has_eos = false;
  input.now_unix_seconds = 1700000000;
  input.max_steps = 10000;
  require(outcome(**parsed, input) == outcome(**parsed, input));
  return 0;
}
