// The part of the engine thread that has a model sum up what conversations dropped.
#include <algorithm>
#include <utility>

#include "engine/engine_thread.h"
#include "engine/guard.h"

namespace banter::engine {

namespace {

/** A summary takes at most an eighth of the context, and is worth nothing below a sentence. */
constexpr uint32_t kMostSummaryTokens = 200, kLeastSummaryTokens = 24;

}  // namespace

/** Behind everybody's replies, at the lowest priority. Greedy, and the character's next request waits for it: so what a
 *  character says never depends on how fast its summary came. */
void EngineThread::start_summary(NpcObject& npc) {
  ModelRunner* const runner = npc.model->runner.get();
  NpcState& state = *npc.state;
  if (runner == nullptr || state.summary != nullptr) return;
  const auto context = static_cast<uint32_t>(runner->context_of(&npc));
  const uint32_t most = std::min(kMostSummaryTokens, context / 8);
  if (most < kLeastSummaryTokens) return state.conversation.set_summary({});
  Generation* job = nullptr;
  const Result<void> begun = guarded([&]() -> Result<void> {
    auto made = std::make_unique<Generation>();
    made->kind = RequestKind::kSummary;
    made->model = npc.model;
    made->summary_of = &npc;
    made->arrival = ++arrivals_;
    made->id = made->arrival;  // below every id of a request, for the trace
    made->submitted_ns = now_ns();
    made->max_tokens = most;
    made->params.temperature = 0;
    // A token is a byte at least, and about four in most languages.
    made->text = state.conversation.summary_request(static_cast<size_t>(runner->loaded().context_tokens), most * 2 / 5);
    summaries_.push_back(std::move(made));
    job = summaries_.back().get();
    state.summary = job;
    runner->begin(*job);
    return {};
  });
  if (job == nullptr) return state.conversation.set_summary({});
  if (!begun && job->terminal == 0) {
    end_with(*job, BANTER_EVENT_FAILED, begun.error().code, BANTER_FINISH_NONE, begun.error().message);
  }
  if (job->terminal != 0) end_summary(*job);
}

void EngineThread::end_summary(Generation& job) {
  NpcObject& npc = *job.summary_of;
  (void)retire(job);  // a summary is no turn: nothing to remember
  NpcState& state = *npc.state;
  const Result<void> kept = guarded([&]() -> Result<void> {
    const bool is_done = job.terminal == BANTER_EVENT_DONE && job.reply.has_value();
    state.conversation.set_summary(is_done ? std::string_view(job.reply->text()) : std::string_view());
    return {};
  });
  if (!kept) state.conversation.set_summary({});
  if (job.terminal == BANTER_EVENT_FAILED) {
    log(BANTER_LOG_WARNING, [&] { return "A conversation could not be summed up: " + job.message; });
  }
  channels_.metrics.request_ended(job.progress.started);
  trace_life(channels_, job);
  state.summary = nullptr;
  summaries_.erase(std::find_if(summaries_.begin(), summaries_.end(),
                                [&](const std::unique_ptr<Generation>& other) { return other.get() == &job; }));
  if (!npc.is_destroyed) advance(npc);
}

/** Ends it, and begins nothing that waited for it. */
void EngineThread::drop_summary(NpcObject& npc) {
  Generation* const job = npc.state->summary;
  if (job == nullptr) return;
  if (job->terminal == 0) end_with(*job, BANTER_EVENT_CANCELLED, BANTER_OK, BANTER_FINISH_NONE, {});
  const bool was_destroyed = std::exchange(npc.is_destroyed, true);
  end_summary(*job);
  npc.is_destroyed = was_destroyed;
}

}  // namespace banter::engine
