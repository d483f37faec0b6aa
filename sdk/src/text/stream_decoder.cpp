#include <string_view>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace banter::text {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool first_of_text)
    : tokenizer_(&tokenizer), at_start_(first_of_text && tokenizer.vocabulary().drop_leading_space) {}

void StreamDecoder::push(TokenId id, std::string& out) {
  push_bytes(tokenizer_->token_bytes(id), out);
}

void StreamDecoder::push_bytes(std::string_view bytes, std::string& out) {
  if (bytes.empty()) return;
  if (at_start_ && bytes.starts_with(' ')) bytes.remove_prefix(1);
  at_start_ = false;
  pending_.append(bytes);
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.status == Utf8Status::kIncomplete) break;
    out.append(step.status == Utf8Status::kOk ? rest.substr(0, step.size) : kReplacementCharacter);
    rest.remove_prefix(step.size);
  }
  pending_.erase(0, pending_.size() - rest.size());
}

void StreamDecoder::finish() {
  pending_.clear();
}

}  // namespace banter::text
