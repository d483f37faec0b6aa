#include "formats/vocabulary_specials.h"

#include <algorithm>
#include <iterator>

namespace banter::formats {
namespace {

// Spellings that are end markers wherever they are a token.
constexpr std::string_view kEndMarkers[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<turn|>",
    "<|tool_response>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",  // DeepSeek, with U+FF5C and U+2581
};

// Spellings that may be ordinary text, too: they count where the file calls them control tokens.
constexpr std::string_view kEndMarkersIfControl[] = {"</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"};

template <size_t kCount>
bool contains(const std::string_view (&list)[kCount], std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

}  // namespace

int32_t find_token(const Vocabulary& vocabulary, std::string_view text) {
  const auto& tokens = vocabulary.tokens;
  const auto found =
      std::find_if(tokens.begin(), tokens.end(), [&](const VocabularyToken& t) { return t.text == text; });
  return found == tokens.end() ? -1 : static_cast<int32_t>(found - tokens.begin());
}

bool is_byte_spelling(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text[5] == '>' &&
         text.substr(3, 2).find_first_not_of("0123456789ABCDEF") == std::string_view::npos;
}

void complete_end_of_generation(Vocabulary& vocabulary) {
  std::vector<int32_t>& ends = vocabulary.end_of_generation;
  for (const int32_t id : {vocabulary.eos, vocabulary.eot})
    if (id >= 0) ends.push_back(id);
  // Phi-3 calls its </s> user-defined, as Gemma does with the HTML tag that ends struck-out text.
  const int32_t begin = find_token(vocabulary, "<s>");
  const bool sentence_marks = begin >= 0 && vocabulary.tokens[static_cast<size_t>(begin)].kind == TokenKind::kControl;
  int32_t end = -1;
  bool has_return = false, has_call = false;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    VocabularyToken& token = vocabulary.tokens[i];
    const auto id = static_cast<int32_t>(i);
    const bool control = token.kind == TokenKind::kControl || token.kind == TokenKind::kUnknown ||
                         (token.kind == TokenKind::kUserDefined && sentence_marks);
    if (!contains(kEndMarkers, token.text) && !(control && contains(kEndMarkersIfControl, token.text))) continue;
    if (token.kind != TokenKind::kUnknown) token.kind = TokenKind::kControl;
    if (token.text == "<|end|>") end = id;
    has_return |= token.text == "<|return|>";
    has_call |= token.text == "<|call|>";
    ends.push_back(id);
  }
  // In gpt-oss <|end|> only closes a channel; the reply ends with one of the other two.
  if (has_return && has_call && end != vocabulary.eos) std::erase(ends, end);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

}  // namespace banter::formats
