// Saving a conversation and loading it again: the engine thread's part.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/generation.h"
#include "engine/loaded_model.h"

namespace banter::engine {

inline bool is_snapshot(RequestKind kind) {
  return kind == RequestKind::kSave || kind == RequestKind::kRestore;
}

/** Runs a request to save or to load to its end (SNAPSHOT, DONE, FAILED) at once. Its character has a state and nothing
 *  else runs for it. A load that fails changes nothing.
 *  @param context_tokens    longest sequence of the character
 *  @param turn_bytes_limit  most bytes of turns that a conversation keeps */
void run_snapshot(LoadedModel& loaded, Generation& generation, int32_t context_tokens, size_t turn_bytes_limit);

}  // namespace banter::engine
