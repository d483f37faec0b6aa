#include "dialogue/reply.h"

#include <algorithm>
#include <utility>

namespace banter::dialogue {

Reply::Reply(const text::Tokenizer& tokenizer, const ChatFormat* format, BannedStrings gate, StopMatcher stops)
    : tokenizer_(&tokenizer),
      format_(format),
      gate_(std::move(gate)),
      stops_(std::move(stops)),
      decoder_(tokenizer, false) {}

Result<Reply> Reply::create(const text::Tokenizer& tokenizer, const ChatFormat* format, const ReplyOptions& options) {
  std::vector<std::string> strings = options.stop_strings;
  if (format != nullptr && !options.ignore_end) {
    strings.insert(strings.end(), format->end_strings().begin(), format->end_strings().end());
  }
  auto stops = StopMatcher::create(strings);
  if (!stops) return stops.error();
  auto gate = BannedStrings::create(options.banned_strings, {});
  if (!gate) return gate.error();
  Reply reply(tokenizer, format, std::move(*gate), std::move(*stops));
  reply.user_stops_ = options.stop_strings.size();
  reply.stop_tokens_ = options.stop_tokens;
  reply.ignore_end_ = options.ignore_end;
  reply.special_text_ = options.special_text;
  reply.at_start_ = format != nullptr && format->drops_leading_space();
  return reply;
}

void Reply::expect_tokens(size_t count) {
  constexpr size_t kBytesPerToken = 6;  // 3 to 4 on average; a longer reply only means that memory grows
  text_.reserve(count * kBytesPerToken);
  decoded_.reserve(256);
  released_.reserve(256);
}

Verdict Reply::push(text::TokenId id, std::string& shown) {
  const bool ends = tokenizer_->is_end_of_generation(id) || (format_ != nullptr && format_->is_turn_border(id));
  const bool stops = std::find(stop_tokens_.begin(), stop_tokens_.end(), id) != stop_tokens_.end();
  if (stops || (ends && !ignore_end_)) {
    finish(shown);
    // A stop string may come to light in what was held back.
    if (stops_.stopped()) return stopped();
    return {stops ? Verdict::kStopToken : Verdict::kEnd};
  }
  return after_gate(gate_.push(id, tokenizer_->token_bytes(id, special_text_)), shown);
}

Verdict Reply::dead_end(std::string& shown) {
  return after_gate(gate_.dead_end(), shown);
}

Verdict Reply::after_gate(BannedStrings::Outcome outcome, std::string& shown) {
  if (show_released(shown)) return stopped();
  switch (outcome) {
    case BannedStrings::Outcome::kContinue:
      return {};
    case BannedStrings::Outcome::kRollback:
      return {Verdict::kRollBack, gate_.rollback().tokens_to_drop};
    case BannedStrings::Outcome::kExhausted:
      return {Verdict::kExhausted, gate_.rollback().tokens_to_drop};
  }
  return {};
}

void Reply::finish(std::string& shown) {
  if (stops_.stopped()) return;
  gate_.finish();
  if (show_released(shown)) return;
  decoder_.finish();
  released_.clear();
  stops_.finish(released_);
  show(released_, shown);
}

Verdict Reply::stopped() const {
  const bool of_request = static_cast<size_t>(stops_.matched()) < user_stops_;
  return {of_request ? Verdict::kStopString : Verdict::kEnd};
}

bool Reply::show_released(std::string& shown) {
  for (const text::TokenId id : gate_.released()) {
    decoded_.clear();
    if (special_text_ && tokenizer_->is_control(id)) {
      decoded_.assign(tokenizer_->token_bytes(id, true));
    } else {
      decoder_.push(id, decoded_);
    }
    released_.clear();
    const bool stop = stops_.push(decoded_, released_);
    show(released_, shown);
    if (stop) return true;
  }
  return false;
}

void Reply::show(std::string_view text, std::string& shown) {
  if (text.empty()) return;
  if (at_start_ && text.front() == ' ') text.remove_prefix(1);
  at_start_ = false;
  text_ += text;
  shown += text;
}

}  // namespace banter::dialogue
