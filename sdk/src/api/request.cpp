// Requests: their options, and banter_cancel.
#include "api/arguments.h"
#include "api/guard.h"
#include "api/handles.h"
#include "banter/banter.h"
#include "engine/engine.h"

using banter::api::Caller;
using banter::api::fail;
using banter::api::guard;

extern "C" {

void BANTER_CALL banter_sampling_config_init(banter_sampling_config* config, size_t struct_size) {
  const banter::engine::SamplingSettings d = banter::engine::default_sampling();
  banter_sampling_config defaults{};
  defaults.seed = d.seed;
  defaults.temperature = d.temperature;
  defaults.top_k = d.top_k;
  defaults.top_p = d.top_p;
  defaults.min_p = d.min_p;
  defaults.typical_p = d.typical_p;
  defaults.repetition_penalty = d.repetition_penalty;
  defaults.presence_penalty = d.presence_penalty;
  defaults.frequency_penalty = d.frequency_penalty;
  defaults.penalty_last_tokens = d.penalty_last_tokens;
  defaults.dry_multiplier = d.dry_multiplier;
  defaults.dry_base = d.dry_base;
  defaults.dry_allowed_length = d.dry_allowed_length;
  defaults.dry_last_tokens = d.dry_last_tokens;
  defaults.xtc_probability = d.xtc_probability;
  defaults.xtc_threshold = d.xtc_threshold;
  defaults.mirostat = d.mirostat;
  defaults.mirostat_tau = d.mirostat_tau;
  defaults.mirostat_eta = d.mirostat_eta;
  banter::api::write_defaults(defaults, config, struct_size);
}

BANTER_GAME_THREAD void BANTER_CALL banter_request_config_init(banter_request_config* config, size_t struct_size) {
  banter_request_config defaults{};
  defaults.priority = BANTER_PRIORITY_DEFAULT;
  banter::api::write_defaults(defaults, config, struct_size);
}

BANTER_GAME_THREAD banter_result BANTER_CALL banter_cancel(banter_engine* handle, banter_request_id request) {
  return guard("banter_cancel", [&](Caller& caller) -> banter_result {
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (engine->cancel(request)) return BANTER_OK;
    return banter::api::fail_plainly(BANTER_ERROR_NOT_FOUND, "The request has ended, or never was.");
  });
}

}  // extern "C"
