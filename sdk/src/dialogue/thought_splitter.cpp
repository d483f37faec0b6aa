#include "dialogue/thought_splitter.h"

#include <algorithm>

namespace banter::dialogue {
namespace {

using text::TokenId;

struct Spelling {
  std::string_view open, close;
};
/** Qwen, DeepSeek, GLM, SmolLM and most others; Magistral; Seed-OSS; Command A. No tag repeats its first byte, which
 *  ThoughtSplitter relies on: undecided bytes that fail are all text. */
constexpr Spelling kSpellings[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
};

bool mentions(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view bytes_of(const text::Tokenizer& tokenizer, const ThinkingTags& tags, TokenId id) {
  if (id == tags.open_id && id >= 0) return tags.open;
  if (id == tags.close_id && id >= 0) return tags.close;
  return tokenizer.token_bytes(id, true);
}

/** The tokens that write `text`, or none where they would show something else. */
std::vector<TokenId> tokens_of(const text::Tokenizer& tokenizer, const ThinkingTags& tags, std::string_view text) {
  std::vector<TokenId> ids;
  tokenizer.encode(text, true, ids);
  std::string shown;
  for (const TokenId id : ids) shown += bytes_of(tokenizer, tags, id);
  // SentencePiece vocabularies put a space before the first word.
  if (shown.starts_with(' ')) shown.erase(0, 1);
  if (shown != text) ids.clear();
  return ids;
}

}  // namespace

ThinkingTags find_thinking_tags(const text::Tokenizer& tokenizer, std::string_view chat_template) {
  ThinkingTags tags;
  for (const Spelling& spelling : kSpellings) {
    const bool single = tokenizer.find(spelling.open) >= 0 && tokenizer.find(spelling.close) >= 0;
    if (!single && !mentions(chat_template, spelling.close) && !mentions(chat_template, spelling.open)) continue;
    tags.open = spelling.open;
    tags.close = spelling.close;
    tags.known = true;
    break;
  }
  tags.open_id = tokenizer.find(tags.open);
  tags.close_id = tokenizer.find(tags.close);
  tags.end_tokens = tags.close_id >= 0 ? std::vector<TokenId>{tags.close_id} : tokens_of(tokenizer, tags, tags.close);
  tags.end_tokens_new_line = tags.end_tokens;
  // A line of its own where the template writes it so (as letters of a Jinja string, or as it is). Templates that do not
  // write thoughts at all leave it to the models' habit, which is the same.
  const std::string line = std::string("\n").append(tags.close), letters = std::string("\\n").append(tags.close);
  const bool bare =
      mentions(chat_template, tags.close) && !mentions(chat_template, letters) && !mentions(chat_template, line);
  if (!bare && !tags.end_tokens.empty()) {
    std::vector<TokenId> ids = tokens_of(tokenizer, tags, line);
    if (!ids.empty()) tags.end_tokens_new_line = std::move(ids);
  }
  return tags;
}

bool ends_in_open_thought(const text::Tokenizer& tokenizer, const ThinkingTags& tags,
                          const std::vector<TokenId>& prompt) {
  constexpr size_t kMostTokens = 32;
  std::string end;
  const size_t first = prompt.size() - std::min(prompt.size(), kMostTokens);
  for (size_t i = first; i < prompt.size(); ++i) end += bytes_of(tokenizer, tags, prompt[i]);
  while (!end.empty() && (end.back() == ' ' || end.back() == '\n')) end.pop_back();
  return end.ends_with(tags.open);
}

}  // namespace banter::dialogue
