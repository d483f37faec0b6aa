#include "engine/snapshots.h"

#include <algorithm>

#include "banter/version.h"
#include "dialogue/snapshot.h"
#include "engine/guard.h"
#include "kv/stored_pages.h"

namespace banter::engine {
namespace {

/** Grows when a page's bytes come to mean something else. */
constexpr const char* kPagesVersion = "/2";

std::string layout_of(const LoadedModel& loaded) {
  return loaded.backend->name() + kPagesVersion;
}

/** What of the character's cache goes into its snapshot. */
std::optional<dialogue::SnapshotKv> kv_to_save(const LoadedModel& loaded, const NpcState& state) {
  if (!state.cache || state.cached.size() != static_cast<size_t>(state.cache->length())) return std::nullopt;
  auto pages = kv::plan_stored_pages(*loaded.backend, *loaded.pool, *state.cache);
  if (!pages) return std::nullopt;
  dialogue::SnapshotKv kv;
  kv.layout = layout_of(loaded);
  kv.tokens.assign(state.cached.begin(), state.cached.begin() + pages->tokens);
  kv.pages = std::move(*pages);
  kv.page_bytes = kv.pages.bytes();
  return kv;
}

Result<void> save(LoadedModel& loaded, Generation& generation) {
  const NpcState& state = *generation.npc->state;
  dialogue::Snapshot snapshot;
  snapshot.library_version = BANTER_VERSION_STRING;
  snapshot.conversation = state.conversation.state();
  snapshot.model = loaded.fingerprint;
  if ((generation.flags & BANTER_SAVE_KV_PAGES) != 0) snapshot.kv = kv_to_save(loaded, state);
  auto written = dialogue::write_snapshot(snapshot);
  if (!written) return written.error();
  if (snapshot.kv) {
    const Result<void> copied =
        kv::copy_pages_out(*loaded.backend, *loaded.pool, *state.cache, snapshot.kv->pages, written->pages);
    if (copied) {
      generation.cached_tokens = static_cast<uint32_t>(snapshot.kv->pages.tokens);
    } else {
      // The device fails: no reason to lose the conversation, which can do without.
      snapshot.kv.reset();
      written = dialogue::write_snapshot(snapshot);
      if (!written) return written.error();
    }
  }
  dialogue::seal(*written);
  generation.prompt_tokens = state.cached.size();
  auto blob = std::make_unique<Blob>();
  blob->bytes = std::move(written->bytes);
  generation.blob = std::move(blob);
  return {};
}

/** The sequence that the snapshot's pages make here; an error says why they make none. */
Result<kv::SequenceCache> restore_pages(LoadedModel& loaded, const dialogue::SnapshotRead& read,
                                        int32_t context_tokens) {
  const dialogue::Snapshot& snapshot = read.snapshot;
  const auto unusable = [](const char* why) { return Error{BANTER_ERROR_UNSUPPORTED, why}; };
  if (snapshot.model != loaded.fingerprint) return unusable("they are of another model");
  if (snapshot.library_version != BANTER_VERSION_STRING) return unusable("another version of the library wrote them");
  if (snapshot.kv->layout != layout_of(loaded)) return unusable("another backend computed them");
  const int32_t vocabulary = loaded.model->hyperparameters().vocabulary;
  const bool known = std::all_of(snapshot.kv->tokens.begin(), snapshot.kv->tokens.end(),
                                 [&](text::TokenId id) { return id >= 0 && id < vocabulary; });
  if (!known) return unusable("they hold tokens that the model does not have");
  return kv::copy_pages_in(*loaded.backend, *loaded.pool, *loaded.prefixes, snapshot.kv->pages, context_tokens,
                           read.pages);
}

/** @returns why KV pages that the snapshot has, or had, are not used; "" when all is well */
Result<std::string> restore(LoadedModel& loaded, Generation& generation, int32_t context_tokens,
                            size_t turn_bytes_limit) {
  auto read = dialogue::read_snapshot(generation.blob->bytes);
  if (!read) return read.error();
  dialogue::Snapshot& snapshot = read->snapshot;
  NpcState& state = *generation.npc->state;
  if ((generation.flags & BANTER_LOAD_KEEP_PERSONA) != 0) {
    snapshot.conversation.persona = state.conversation.persona();
    snapshot.conversation.examples = state.conversation.examples();
  }
  auto conversation =
      dialogue::Conversation::restored(std::move(snapshot.conversation), state.conversation.policy(), turn_bytes_limit);

  // Its pages make room for the new ones; losing them costs time at worst.
  state.cached.clear();
  state.cache.reset();
  std::string problem = std::move(read->kv_problem);
  std::optional<kv::SequenceCache> cache;
  if (snapshot.kv) {
    generation.prompt_tokens = snapshot.kv->tokens.size();
    // Out of memory here is no reason to lose the conversation either.
    auto restored = guarded([&] { return restore_pages(loaded, *read, context_tokens); });
    if (restored) {
      cache.emplace(std::move(*restored));
      cache->keep_private();  // a save game's numbers are nobody else's
    } else {
      problem = restored.error().message;
    }
  }
  if (!problem.empty()) problem = "The snapshot's KV pages are not used: " + problem + ".";

  // From here on nothing can fail.
  state.conversation = std::move(conversation);
  if (cache) {
    generation.cached_tokens = static_cast<uint32_t>(cache->length());
    state.cache = std::move(cache);
    state.cached = std::move(snapshot.kv->tokens);
  }
  return problem;
}

}  // namespace

void run_snapshot(LoadedModel& loaded, Generation& generation, int32_t context_tokens, size_t turn_bytes_limit) {
  generation.started_ns = now_ns();
  if (generation.kind == RequestKind::kSave) {
    const Result<void> saved = save(loaded, generation);
    if (saved) return end_with(generation, BANTER_EVENT_SNAPSHOT, BANTER_OK, BANTER_FINISH_NONE, {});
    return end_with(generation, BANTER_EVENT_FAILED, saved.error().code, BANTER_FINISH_NONE, saved.error().message);
  }
  Result<std::string> restored = restore(loaded, generation, context_tokens, turn_bytes_limit);
  generation.blob.reset();
  if (!restored) {
    return end_with(generation, BANTER_EVENT_FAILED, restored.error().code, BANTER_FINISH_NONE,
                    restored.error().message);
  }
  end_with(generation, BANTER_EVENT_DONE, BANTER_OK, BANTER_FINISH_NONE, std::move(*restored));
}

}  // namespace banter::engine
