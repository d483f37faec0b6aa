// Token ids to text.
#include <algorithm>

#include "text/bpe_tokenizer.h"
#include "text/utf8.h"

namespace banter::text {

using formats::TokenKind;

std::string_view BpeTokenizer::token_bytes(TokenId id, bool special) const {
  if (!valid(id)) return {};
  const TokenKind token_kind = kind(id);
  const bool hidden =
      token_kind == TokenKind::kControl || token_kind == TokenKind::kUnknown || token_kind == TokenKind::kUnused;
  return hidden && !special ? std::string_view() : bytes_of(id);
}

std::string BpeTokenizer::decode(std::span<const TokenId> ids, bool special) const {
  std::string bytes;
  for (const TokenId id : ids) bytes.append(token_bytes(id, special));
  std::string_view text = bytes;
  if (vocabulary_.drop_leading_space && text.starts_with(' ')) text.remove_prefix(1);
  std::string out;
  out.reserve(text.size());
  utf8_append_lossy(text, out);
  return out;
}

bool BpeTokenizer::is_control(TokenId id) const {
  return valid(id) && kind(id) == TokenKind::kControl;
}

bool BpeTokenizer::is_end_of_generation(TokenId id) const {
  const auto& ends = vocabulary_.end_of_generation;
  return std::find(ends.begin(), ends.end(), id) != ends.end();
}

bool BpeTokenizer::is_unused(TokenId id) const {
  if (!valid(id)) return true;
  if (kind(id) == TokenKind::kUnused) return true;
  // Some models pad with a token that also ends replies.
  return id == vocabulary_.padding && id != vocabulary_.eos && id != vocabulary_.bos && !is_end_of_generation(id);
}

TokenId BpeTokenizer::find(std::string_view stored_text) const {
  return stored_.find(stored_text,
                      [&](int32_t id) { return std::string_view(vocabulary_.tokens[static_cast<size_t>(id)].text); });
}

}  // namespace banter::text
