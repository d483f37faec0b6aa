// banter_npc_create_from_profile
#include "dialogue/profile.h"

#include "api/arguments.h"
#include "api/guard.h"
#include "api/handles.h"
#include "banter/banter.h"
#include "engine/engine.h"

using banter::api::Caller;
using banter::api::fail;
using banter::api::guard;

extern "C" {

banter_result BANTER_CALL banter_npc_create_from_profile(banter_model* handle, const void* profile, size_t profile_size,
                                                         void* user_data, banter_npc** out_npc) {
  return guard("banter_npc_create_from_profile", [&](Caller& caller) -> banter_result {
    if (out_npc == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_npc is NULL.");
    *out_npc = nullptr;
    banter::engine::ModelObject* const model = banter::api::model_of(handle, caller);
    if (model == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (profile == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "profile is NULL.");
    banter_sampling_config defaults;
    banter_sampling_config_init(&defaults, sizeof defaults);
    auto read = banter::dialogue::read_profile({static_cast<const std::byte*>(profile), profile_size}, defaults);
    if (!read) return fail(read.error());

    banter::engine::NpcSettings settings;
    settings.persona = read->persona;
    settings.examples = read->examples;
    settings.stop_strings = read->stop_strings;
    settings.priority = read->priority;
    settings.policy = static_cast<banter::dialogue::ContextPolicy>(read->policy);
    settings.context_tokens = read->context_tokens;
    settings.reply_reserve_tokens = read->reply_reserve_tokens;
    settings.user_data = user_data != nullptr ? user_data : model->user_data;
    if (read->has_sampling) {
      const std::string name =
          "The profile" + (read->name.empty() ? std::string() : " '" + read->name + "'") + ": sampling";
      const auto code = banter::api::read_sampling_into(&read->sampling, settings, name.c_str());
      if (code != BANTER_OK) return code;
    }
    auto npc = model->engine->create_npc(*model, settings);
    if (!npc) return fail(npc.error());
    *out_npc = reinterpret_cast<banter_npc*>(*npc);
    return BANTER_OK;
  });
}

}  // extern "C"
