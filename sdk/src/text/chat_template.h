// Chat templates: a small Jinja interpreter that knows which bytes came from outside.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "text/tokenizer.h"

namespace banter::text {

using Json = nlohmann::ordered_json;

/** A message with a role and text only. */
struct ChatTurn {
  std::string role, content;
};

/** Everything a template may read. */
struct TemplateInput {
  Json messages = Json::array();  // [{"role": …, "content": …, …}]; outside text, never trusted, but for a role of
                                  // a known name ("user", …), which some templates spell control tokens with
  // The same without JSON, used when not empty: a JSON value may need memory to be destroyed, and without any the process
  // would end.
  std::vector<ChatTurn> turns;
  bool add_generation_prompt = true;
  std::vector<std::pair<std::string, bool>>
      switches;                         // further variables that are true or false; without JSON, as turns
  Json extra = Json::object();          // further variables: tools, documents, enable_thinking, date_string, …
  std::string bos_token, eos_token;     // trusted
  bool has_bos = true, has_eos = true;  // false = undefined, as for a model without such a token
  int64_t now_unix_seconds = 0;         // for strftime_now, local time as UTC; 0 = the system clock
  uint64_t max_steps = 0;  // of the render; 0 = 10 million and one per byte of input, about a second of work
};

/** A parsed template. Immutable: any number of threads may render it. */
class ChatTemplate {
 public:
  /** Parses. Errors: BANTER_ERROR_TEMPLATE, with line and what was expected. */
  static Result<std::unique_ptr<ChatTemplate>> parse(std::string_view source);
  virtual ~ChatTemplate() = default;
  /** Renders to segments; text that stems from messages or extra is untrusted, the template's own text is trusted.
   *  Errors: BANTER_ERROR_TEMPLATE (raise_exception's message, or what failed and in which line). Work, depth and
   *  output size are bounded, so a hostile template ends in an error. */
  virtual Result<std::vector<Segment>> render(const TemplateInput& input) const = 0;
};

/** Concatenated text of segments. */
std::string join(const std::vector<Segment>& segments);

}  // namespace banter::text
