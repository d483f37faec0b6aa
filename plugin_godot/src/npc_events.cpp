// What the engine tells about a character's requests, and how each of them ends.
#include <algorithm>
#include <utility>

#include "banter_npc.h"
#include "errors.h"

namespace banter::godot {
namespace {

const char* finish_name(const banter_event& event) {
  if (event.kind == BANTER_EVENT_CANCELLED) return "cancelled";
  switch (event.finish_reason) {
    case BANTER_FINISH_END:
      return "end";
    case BANTER_FINISH_STOP_STRING:
      return "stop_string";
    case BANTER_FINISH_STOP_TOKEN:
      return "stop_token";
    case BANTER_FINISH_LENGTH:
      return "length";
    case BANTER_FINISH_CONTEXT:
      return "context";
    default:
      return "";
  }
}

Dictionary statistics_of(const banter_event& event, int64_t id) {
  Dictionary stats;
  stats.set("request_id", id);
  stats.set("finish_reason", finish_name(event));
  if (event.statistics == nullptr) return stats;
  const banter_request_statistics& s = *event.statistics;
  stats.set("prompt_tokens", s.prompt_tokens);
  stats.set("cached_tokens", s.cached_tokens);
  stats.set("generated_tokens", s.generated_tokens);
  stats.set("thought_tokens", s.thought_tokens);
  stats.set("queue_ms", s.queue_ms);
  stats.set("time_to_first_token_ms", s.ttft_ms);
  stats.set("prefill_ms", s.prefill_ms);
  stats.set("decode_ms", s.decode_ms);
  const bool timed = s.decode_ms > 0 && s.generated_tokens > 1;
  stats.set("tokens_per_second", timed ? 1000.0 * (s.generated_tokens - 1) / s.decode_ms : 0.0);
  return stats;
}

Dictionary statistics_unstarted(int64_t id) {
  Dictionary stats;
  stats.set("request_id", id);
  stats.set("finish_reason", "cancelled");
  return stats;
}

}  // namespace

bool BanterNPC::handle_event(const banter_event& event, Emissions& emissions) {
  const auto found =
      std::find_if(running_.begin(), running_.end(), [&](const auto& r) { return r.first == event.request; });
  if (found == running_.end()) return true;
  Request& request = found->second;
  const std::string_view text(event.text, event.text_len);
  switch (event.kind) {
    case BANTER_EVENT_TEXT:
      request.reply += text;
      emissions.add_unless(request.silence, id(), "text_received", text);
      for (const std::string& sentence : request.sentences.add(text))
        emissions.add_unless(request.silence, id(), "sentence_received", sentence);
      return false;
    case BANTER_EVENT_THOUGHT:
      emissions.add_unless(request.silence, id(), "thought_received", text);
      return false;
    case BANTER_EVENT_CONTEXT_TRIMMED:
      emissions.add(id(), "context_trimmed", event.dropped_turns, event.dropped_tokens);
      return false;
    case BANTER_EVENT_DONE:
    case BANTER_EVENT_CANCELLED:
    case BANTER_EVENT_SNAPSHOT:
    case BANTER_EVENT_FAILED:
      break;
    default:
      return false;
  }
  Request ended = std::move(request);
  running_.erase(found);
  if (event.kind == BANTER_EVENT_FAILED) {
    end_failed(ended, error_of(event.code), std::string(text), emissions);
  } else if (ended.kind == Kind::kSay) {
    end_said(ended, event, emissions);
  } else if (event.kind == BANTER_EVENT_CANCELLED) {
    end_cancelled(ended, emissions);
  } else {
    end_saved(ended, event, emissions);
  }
  return true;
}

void BanterNPC::end_said(Request& request, const banter_event& event, Emissions& emissions) {
  const bool kept = event.kind == BANTER_EVENT_DONE || !request.reply.empty();
  if (kept && !request.forgotten) {
    if (!request.text.empty()) turns_.push_back({BANTER_ROLE_USER, request.text});
    turns_.push_back({BANTER_ROLE_ASSISTANT, request.reply});
    turns_sent_ = turns_.size();  // the engine has them, too
  }
  if (const std::string rest = request.sentences.finish(); !rest.empty()) {
    emissions.add_unless(request.silence, id(), "sentence_received", rest);
  }
  emissions.add(id(), "reply_finished", request.reply, statistics_of(event, request.id));
  emissions.complete(request.pending, request.reply);
}

void BanterNPC::end_saved(const Request& request, const banter_event& event, Emissions& emissions) {
  if (request.kind == Kind::kSave) {
    const auto* const first = static_cast<const std::byte*>(event.bytes);
    const std::vector<std::byte> state = pack_state(turns_, {first, static_cast<size_t>(event.byte_count)});
    emissions.complete(request.pending, PackedByteArray(state));
    return;
  }
  if (!request.forgotten) {
    turns_ = request.turns;
    turns_sent_ = turns_.size();
  }
  emissions.complete(request.pending, kOk);
}

void BanterNPC::end_failed(const Request& request, int64_t error, const std::string& message, Emissions& emissions) {
  emissions.add(id(), "failed", error, message);
  switch (request.kind) {
    case Kind::kSay:
      return emissions.complete(request.pending, request.reply);
    case Kind::kSave:
      return emissions.complete(request.pending, PackedByteArray());
    case Kind::kLoad:
      return emissions.complete(request.pending, error);
    case Kind::kTurn:
      return;
  }
}

void BanterNPC::end_cancelled(const Request& request, Emissions& emissions) {
  if (request.kind == Kind::kTurn) return;
  if (request.kind != Kind::kSay) return end_failed(request, kErrSkip, "It was cancelled.", emissions);
  emissions.add(id(), "reply_finished", request.reply, statistics_unstarted(request.id));
  emissions.complete(request.pending, request.reply);
}

Variant BanterNPC::cancelled_result(const Request& request) {
  if (request.kind == Kind::kSave) return PackedByteArray();
  if (request.kind == Kind::kLoad) return kErrSkip;
  return request.reply;
}

}  // namespace banter::godot
