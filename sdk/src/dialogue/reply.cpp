#include "dialogue/reply.h"

#include <algorithm>
#include <utility>

namespace banter::dialogue {

Reply::Reply(const text::Tokenizer& tokenizer, const ChatFormat* format, BannedStrings gate, StopMatcher stops)
    : tokenizer_(&tokenizer),
      format_(format),
      gate_(std::move(gate)),
      stops_(std::move(stops)),
      decoder_(tokenizer, false),
      thought_decoder_(tokenizer, false) {}

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
  if (options.tags != nullptr) {
    reply.tags_ = options.tags;
    reply.ahead_ = reply.settled_ = ThoughtSplitter(*options.tags, options.starts_in_thought);
    reply.report_thought_ = options.report_thought;
    reply.thought_budget_ = options.thought_budget;
    reply.holds_leading_ = options.tags->known;
  }
  return reply;
}

void Reply::expect_tokens(size_t count) {
  constexpr size_t kBytesPerToken = 6;  // 3 to 4 on average; a longer reply only means that memory grows
  text_.reserve(count * kBytesPerToken);
  if (!gate_.empty()) said_.reserve(count * kBytesPerToken);
  hidden_.reserve(count);
  before_.reserve(64);
  for (std::string* scratch : {&split_, &piece_, &decoded_, &released_}) scratch->reserve(256);
}

std::string_view Reply::bytes_of(text::TokenId id) const {
  // Where a tag is a control token it has no text of its own.
  if (tags_ != nullptr && id >= 0 && id == tags_->open_id) return tags_->open;
  if (tags_ != nullptr && id >= 0 && id == tags_->close_id) return tags_->close;
  return tokenizer_->token_bytes(id, special_text_);
}

Verdict Reply::push(text::TokenId id, Outgoing& shown) {
  const bool ends = tokenizer_->is_end_of_generation(id) || (format_ != nullptr && format_->is_turn_border(id));
  const bool tag = tags_ != nullptr && id >= 0 && (id == tags_->open_id || id == tags_->close_id);
  const bool stops =
      (tag || !ahead_.in_thought()) && std::find(stop_tokens_.begin(), stop_tokens_.end(), id) != stop_tokens_.end();
  if (stops || (ends && !ignore_end_)) {
    hidden_.push_back(tag || ahead_.in_thought() ? 1 : 0);
    finish(shown);
    // A stop string may come to light in what was held back.
    if (stops_.stopped()) return stopped();
    return {stops ? Verdict::kStopToken : Verdict::kEnd};
  }
  return after_gate(gate_.push(id, look_ahead(bytes_of(id))), shown);
}

std::string_view Reply::look_ahead(std::string_view bytes) {
  before_.push_back({ahead_, said_.size()});
  // The start of a tag is watched as speech, until it is one.
  const size_t watched = ahead_.in_thought() ? 0 : ahead_.undecided().size();
  split_.clear();
  ahead_.push(bytes, [&](bool thought, char byte) {
    if (!thought) split_ += byte;
  });
  hidden_.push_back(ahead_.hidden() ? 1 : 0);
  const size_t tagged = std::min<size_t>(ahead_.tagged_tokens(), hidden_.size() - 1);
  std::fill(hidden_.end() - 1 - static_cast<std::ptrdiff_t>(tagged), hidden_.end() - 1, uint8_t{1});
  if (gate_.empty()) return {};
  const bool unsaid = ahead_.unsaid() && watched > 0;
  if (unsaid) gate_.continue_from(said_);
  said_ += split_;
  if (!ahead_.in_thought()) split_ += ahead_.undecided();
  std::string_view fresh = split_;
  if (!unsaid) fresh.remove_prefix(std::min(watched, fresh.size()));
  return fresh;
}

Verdict Reply::dead_end(Outgoing& shown) {
  return after_gate(gate_.dead_end(), shown);
}

Verdict Reply::after_gate(BannedStrings::Outcome outcome, Outgoing& shown) {
  const bool back = outcome != BannedStrings::Outcome::kContinue;
  const size_t dropped = back ? std::min(static_cast<size_t>(gate_.rollback().tokens_to_drop), before_.size()) : 0;
  if (dropped > 0) {
    const size_t kept = before_.size() - dropped;
    ahead_ = before_[kept].ahead;
    said_.resize(before_[kept].said_bytes);
    before_.resize(kept);
    hidden_.resize(hidden_.size() - dropped);
  }
  const size_t let_out = before_.size() - std::min(before_.size(), gate_.held());
  before_.erase(before_.begin(), before_.begin() + static_cast<std::ptrdiff_t>(let_out));
  if (show_released(shown)) return stopped();
  if (!back) return {};
  const bool again = outcome == BannedStrings::Outcome::kRollback;
  return {again ? Verdict::kRollBack : Verdict::kExhausted, gate_.rollback().tokens_to_drop};
}

std::span<const text::TokenId> Reply::forced_tokens() const {
  if (thought_budget_ == 0 || !ahead_.in_thought() || ahead_.thought_tokens() < thought_budget_) return {};
  return ahead_.at_line_start() ? tags_->end_tokens : tags_->end_tokens_new_line;
}

uint32_t Reply::hidden_tokens() const {
  return static_cast<uint32_t>(std::count(hidden_.begin(), hidden_.end(), uint8_t{1}));
}

void Reply::finish(Outgoing& shown) {
  if (stops_.stopped()) return;
  gate_.finish();
  before_.clear();
  if (show_released(shown)) return;
  bool stop = false;
  thoughts_before_ = settled_.thoughts();
  settled_.finish([&](bool thought, char byte) {
    piece_.assign(1, byte);
    stop = stop || pass(thought, shown);
  });
  if (stop) return;
  holds_leading_ = false;
  if (thoughts_before_ == 0 && !leading_.empty() && say({}, shown)) return;
  decoder_.finish();
  thought_decoder_.finish();
  released_.clear();
  stops_.finish(released_);
  show(released_, shown);
}

Verdict Reply::stopped() const {
  const bool of_request = static_cast<size_t>(stops_.matched()) < user_stops_;
  return {of_request ? Verdict::kStopString : Verdict::kEnd};
}

bool Reply::show_released(Outgoing& shown) {
  for (const text::TokenId id : gate_.released()) {
    piece_.clear();
    bool of_thought = false, stop = false;
    thoughts_before_ = settled_.thoughts();
    settled_.push(bytes_of(id), [&](bool thought, char byte) {
      if (thought != of_thought || settled_.thoughts() != thoughts_before_) {
        stop = stop || pass(of_thought, shown);
        piece_.clear();
        of_thought = thought;
        thoughts_before_ = settled_.thoughts();
      }
      piece_ += byte;
    });
    if (stop || pass(of_thought, shown)) return true;
  }
  return false;
}

/** Sends piece_ on; true when a stop string was found. */
bool Reply::pass(bool thought, Outgoing& shown) {
  if (piece_.empty()) return false;
  decoded_.clear();
  if (!thought) {
    decoder_.push_bytes(piece_, decoded_);
    return say(decoded_, shown);
  }
  if (!report_thought_) return false;
  thought_decoder_.push_bytes(piece_, decoded_);
  shown.add(true, decoded_);
  return false;
}

/** Speech, in whole code points. A model that thinks may write white space before it does: that waits. */
bool Reply::say(std::string_view text, Outgoing& shown) {
  if (holds_leading_ && text.find_first_not_of(" \n\r\t") == std::string_view::npos) {
    leading_ += text;
    return false;
  }
  holds_leading_ = false;
  released_.clear();
  bool stop = false;
  if (!leading_.empty()) {
    if (thoughts_before_ == 0) stop = stops_.push(leading_, released_);
    leading_.clear();
  }
  stop = stop || stops_.push(text, released_);
  show(released_, shown);
  return stop;
}

void Reply::show(std::string_view text, Outgoing& shown) {
  if (text.empty()) return;
  if (at_start_ && text.front() == ' ') text.remove_prefix(1);
  at_start_ = false;
  text_ += text;
  shown.add(false, text);
}

}  // namespace banter::dialogue
