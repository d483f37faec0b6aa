// Requests: their options, and banter_cancel.
#include "api/guard.h"
#include "api/handles.h"
#include "banter/banter.h"
#include "engine/engine.h"

using banter::api::Caller;
using banter::api::fail;
using banter::api::guard;

extern "C" {

void BANTER_CALL banter_sampling_config_init(banter_sampling_config* config) {
  if (config == nullptr) return;
  const banter::engine::SamplingSettings d = banter::engine::default_sampling();
  *config = {};
  config->struct_size = sizeof *config;
  config->seed = d.seed;
  config->temperature = d.temperature;
  config->top_k = d.top_k;
  config->top_p = d.top_p;
  config->min_p = d.min_p;
  config->typical_p = d.typical_p;
  config->repetition_penalty = d.repetition_penalty;
  config->presence_penalty = d.presence_penalty;
  config->frequency_penalty = d.frequency_penalty;
  config->penalty_last_tokens = d.penalty_last_tokens;
  config->dry_multiplier = d.dry_multiplier;
  config->dry_base = d.dry_base;
  config->dry_allowed_length = d.dry_allowed_length;
  config->dry_last_tokens = d.dry_last_tokens;
  config->xtc_probability = d.xtc_probability;
  config->xtc_threshold = d.xtc_threshold;
  config->mirostat = d.mirostat;
  config->mirostat_tau = d.mirostat_tau;
  config->mirostat_eta = d.mirostat_eta;
}

BANTER_GAME_THREAD void BANTER_CALL banter_request_config_init(banter_request_config* config) {
  if (config == nullptr) return;
  *config = {};
  config->struct_size = sizeof *config;
  config->priority = BANTER_PRIORITY_DEFAULT;
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
