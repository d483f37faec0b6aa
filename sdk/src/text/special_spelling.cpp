#include "text/special_spelling.h"

#include <algorithm>

namespace banter::text {
namespace {

constexpr std::string_view kTags[] = {
    "think",          "thinking",      "thought",     "reasoning",   "reflection",    "tool",
    "tools",          "tool_call",     "tool_calls",  "tool_result", "tool_response", "function",
    "function_calls", "arg_key",       "arg_value",   "observation", "system",        "user",
    "assistant",      "start_of_turn", "end_of_turn", "turn",
};

bool is_bracketed_name(std::string_view name) {
  // [INST], [/INST], [TOOL_CALLS], [gMASK]: a word of the chat format needs a capital and nothing but name characters.
  bool capital = false;
  for (const char c : name) {
    capital |= c >= 'A' && c <= 'Z';
    const bool fits =
        (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '/';
    if (!fits) return false;
  }
  return capital;
}

}  // namespace

bool is_structural_spelling(std::string_view text) {
  constexpr std::string_view kWideOpen = "<\xEF\xBD\x9C",
                             kWideClose = "\xEF\xBD\x9C>";  // U+FF5C, as DeepSeek writes it
  if (text.starts_with("<|") || text.ends_with("|>") || text.starts_with(kWideOpen) || text.ends_with(kWideClose))
    return true;
  if (text.starts_with('[') && text.ends_with(']') && text.size() > 2)
    return is_bracketed_name(text.substr(1, text.size() - 2));
  if (!text.starts_with('<') || !text.ends_with('>') || text.size() < 3) return false;
  std::string_view name = text.substr(1, text.size() - 2);
  if (name.starts_with('/')) name.remove_prefix(1);
  return std::find(std::begin(kTags), std::end(kTags), name) != std::end(kTags);
}

}  // namespace banter::text
