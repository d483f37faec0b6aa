// The part of the model runner that turns logits into tokens, and tokens into what they mean for their reply.
#include <algorithm>

#include "engine/model_runner.h"

namespace banter::engine {

void ModelRunner::next_token(Generation& generation, int32_t row, uint64_t now) {
  dialogue::Reply& reply = *generation.reply;
  std::span<const text::TokenId> banned = loaded_->unused_tokens;
  if (const auto now_banned = reply.banned_tokens(); !now_banned.empty()) {
    banned_.assign(banned.begin(), banned.end());
    banned_.insert(banned_.end(), now_banned.begin(), now_banned.end());
    banned = banned_;
  }
  const uint64_t position = sampling::draw_position(generation.reply_tokens.size(), reply.rollbacks());
  const text::TokenId token = generation.sampler->sample(loaded_->model->logit_row(row), banned, position);
  if (const Error* error = loaded_->model->logit_error(); token < 0 && error != nullptr) {
    return end_with(generation, BANTER_EVENT_FAILED, error->code, BANTER_FINISH_NONE, error->message);
  }
  if (token < 0) return act_on(generation, reply.dead_end(generation.out_text), true);

  if (generation.first_token_ns == 0) {
    generation.first_token_ns = now;
  } else {
    generation.latency.add(now - generation.last_token_ns);
  }
  generation.last_token_ns = now;
  append(generation, token);
  // A thought that has used up its budget is ended by tokens that nobody chose; they are computed with the next step.
  const std::span<const text::TokenId> forced = reply.forced_tokens();
  for (size_t i = 0; i < forced.size() && generation.state == Generation::State::kRunning; ++i) {
    append(generation, forced[i]);
  }
}

void ModelRunner::append(Generation& generation, text::TokenId token) {
  generation.sampler->accept(token);
  generation.tokens.push_back(token);
  generation.reply_tokens.push_back(token);
  act_on(generation, generation.reply->push(token, generation.out_text), false);
}

/** Row `first_row` + i of the logits tells what comes after the chunk's first i + 1 tokens. Tokens are chosen as ever; as long as each is
 *  what was guessed, the next row counts too. */
void ModelRunner::check_guesses(Generation& generation, const model::Chunk& chunk, int32_t first_row, uint64_t now) {
  const size_t rows = chunk.tokens.size();
  const size_t before = generation.reply_tokens.size(), size = generation.tokens.size();
  const int32_t start = generation.cache->length() - static_cast<int32_t>(rows);
  int32_t right = 0;
  for (size_t i = 0; i < rows; ++i) {
    next_token(generation, first_row + static_cast<int32_t>(i), now);
    const bool went_on = generation.terminal == 0 && generation.reply_tokens.size() == before + i + 1 &&
                         generation.tokens.size() == size + i + 1;
    if (!went_on || i + 1 == rows || generation.tokens.back() != chunk.tokens[i + 1]) break;
    ++right;
  }
  const auto guessed = static_cast<int32_t>(rows) - 1;
  channels_.metrics.speculated(static_cast<uint32_t>(guessed), static_cast<uint32_t>(right));
  generation.guesses.clear();
  if (generation.draft_cache) generation.draft_cache->truncate(start + 1 + right);
  generation.acceptance.learn(guessed, right);
  generation.drafted_tokens += static_cast<uint32_t>(guessed);
  generation.accepted_tokens += static_cast<uint32_t>(right);
  const auto known = static_cast<int32_t>(generation.tokens.size()) - 1;
  // Of the chunk's rows those count that were right; what was forced behind them is not computed yet.
  generation.cache->truncate(std::min(known, start + 1 + right));
  generation.progress.truncated(static_cast<uint32_t>(generation.cache->length()));
}

void ModelRunner::act_on(Generation& generation, const dialogue::Verdict& verdict, bool nothing_to_choose) {
  const auto done = [&](banter_finish_reason reason) {
    generation.reply->finish(generation.out_text);
    end_with(generation, BANTER_EVENT_DONE, BANTER_OK, reason, {});
  };
  using dialogue::Verdict;
  switch (verdict.kind) {
    case Verdict::kEnd:
      return done(BANTER_FINISH_END);
    case Verdict::kStopString:
      return done(BANTER_FINISH_STOP_STRING);
    case Verdict::kStopToken:
      return done(BANTER_FINISH_STOP_TOKEN);
    case Verdict::kRollBack:
      return roll_back(generation, verdict.tokens);
    case Verdict::kExhausted:
      if (nothing_to_choose && generation.reply->rollbacks() == 0) {
        return end_with(generation, BANTER_EVENT_FAILED, BANTER_ERROR_BACKEND, BANTER_FINISH_NONE,
                        "No token could be chosen: the model's scores are not numbers, or everything is banned.");
      }
      roll_back(generation, verdict.tokens);
      return done(BANTER_FINISH_STOP_STRING);
    case Verdict::kGoOn:
      break;
  }
  if (generation.max_tokens != 0 && generation.reply_tokens.size() >= generation.max_tokens) {
    return done(BANTER_FINISH_LENGTH);
  }
  if (generation.tokens.size() >= static_cast<size_t>(generation.limit) && !slide(generation)) {
    return done(BANTER_FINISH_CONTEXT);
  }
}

/** The context is full: a reply of a sliding conversation goes on without the older half of what follows the persona.
 *  What stays is computed again, so the reply is what a prompt of just these tokens gives. False: it must end. */
bool ModelRunner::slide(Generation& generation) {
  if (generation.npc == nullptr || generation.npc->state->conversation.policy() != dialogue::ContextPolicy::kSlide) {
    return false;
  }
  // Without a limit of its own the reply ends when it has filled a context by itself.
  const bool endless = generation.max_tokens == 0;
  if (endless && generation.reply_tokens.size() >= static_cast<size_t>(generation.limit)) return false;
  size_t kept_whole = 32;  // what a banned string may still take back
  for (const std::string& banned : generation.reply_options.banned_strings) {
    kept_whole = std::max(kept_whole, banned.size() + 1);
  }
  const auto pinned = static_cast<size_t>(generation.prompt.pinned_tokens);
  const size_t sliding = generation.tokens.size() - pinned, dropped = sliding / 2;
  if (sliding - dropped < kept_whole) return false;
  const auto first = generation.tokens.begin() + static_cast<std::ptrdiff_t>(pinned);
  generation.tokens.erase(first, first + static_cast<std::ptrdiff_t>(dropped));
  generation.cache->truncate(static_cast<int32_t>(pinned));
  generation.draft_cache.reset();
  generation.trimmed_tokens += static_cast<uint32_t>(dropped);
  generation.trimmed_waiting = true;
  return true;
}

void ModelRunner::roll_back(Generation& generation, int32_t count) {
  const auto n = std::min(static_cast<size_t>(count), generation.reply_tokens.size());
  generation.reply_tokens.resize(generation.reply_tokens.size() - n);
  generation.tokens.resize(generation.tokens.size() - n);
  generation.sampler->rollback(static_cast<int32_t>(n));
  // The newest token left is computed once more: its logits choose again.
  generation.cache->truncate(static_cast<int32_t>(generation.tokens.size()) - 1);
  generation.progress.truncated(static_cast<uint32_t>(generation.cache->length()));
  if (generation.draft_cache) generation.draft_cache->truncate(static_cast<int32_t>(generation.tokens.size()));
}

}  // namespace banter::engine
