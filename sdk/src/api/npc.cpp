// banter_npc_…
#include "api/arguments.h"
#include "api/guard.h"
#include "api/handles.h"
#include "banter/banter.h"
#include "engine/engine.h"

using banter::api::Caller;
using banter::api::fail;
using banter::api::guard;

extern "C" {

void BANTER_CALL banter_npc_config_init(banter_npc_config* config, size_t struct_size) {
  banter::api::write_defaults(banter_npc_config{}, config, struct_size);
}

banter_result BANTER_CALL banter_npc_create(banter_model* handle, const banter_npc_config* config,
                                            banter_npc** out_npc) {
  return guard("banter_npc_create", [&](Caller& caller) -> banter_result {
    if (out_npc == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_npc is NULL.");
    *out_npc = nullptr;
    banter::engine::ModelObject* const model = banter::api::model_of(handle, caller);
    if (model == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    banter_npc_config c;
    banter_npc_config_init(&c, sizeof c);
    if (config != nullptr) {
      if (const banter_result code = banter::api::read_struct("banter_npc_config", config, c)) return code;
    }
    if (c.flags != 0) return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_npc_config.flags must be 0.");
    if (c.context_tokens != 0 && c.context_tokens < 16) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT,
                  "banter_npc_config.context_tokens is %u; give 0 for the model's, or at least 16.", c.context_tokens);
    }
    banter::engine::NpcSettings settings;
    if (const auto code =
            banter::api::read_text("banter_npc_config.persona", c.persona, c.persona_len, settings.persona)) {
      return code;
    }
    if (c.context_policy < BANTER_CONTEXT_TRIM || c.context_policy > BANTER_CONTEXT_STOP || c.reserved0 != 0) {
      return fail(
          BANTER_ERROR_INVALID_ARGUMENT,
          "banter_npc_config.context_policy is %d; give TRIM (0), SUMMARIZE (1), SLIDE (2) or STOP (3), and 0 as "
          "reserved0.",
          c.context_policy);
    }
    settings.policy = static_cast<banter::dialogue::ContextPolicy>(c.context_policy);
    settings.context_tokens = c.context_tokens;
    settings.reply_reserve_tokens = c.reply_reserve_tokens;
    settings.user_data = c.user_data != nullptr ? c.user_data : model->user_data;
    if (c.sampling != nullptr) {
      if (const banter_result code = banter::api::read_sampling_into(c.sampling, settings)) return code;
    }
    auto npc = model->engine->create_npc(*model, settings);
    if (!npc) return fail(npc.error());
    *out_npc = reinterpret_cast<banter_npc*>(*npc);
    return BANTER_OK;
  });
}

void BANTER_CALL banter_npc_destroy(banter_npc* handle) {
  if (handle == nullptr) return;
  (void)guard("banter_npc_destroy", [&](Caller& caller) -> banter_result {
    banter::engine::NpcObject* const npc = banter::api::npc_of(handle, caller);
    if (npc == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    npc->engine->destroy_npc(*npc);
    return BANTER_OK;
  });
}

BANTER_GAME_THREAD banter_result BANTER_CALL banter_npc_say(banter_npc* handle, const char* text, size_t text_len,
                                                            const banter_request_config* config,
                                                            banter_request_id* out_request) {
  return guard("banter_npc_say", [&](Caller& caller) -> banter_result {
    if (out_request == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_request is NULL.");
    *out_request = 0;
    banter::engine::NpcObject* const npc = banter::api::npc_of(handle, caller);
    if (npc == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    banter::engine::Submission submission;
    submission.kind = banter::engine::RequestKind::kSay;
    submission.model = npc->model;
    submission.npc = npc;
    submission.user_data = npc->user_data;
    if (const banter_result code = banter::api::read_text("text", text, text_len, submission.text)) return code;
    constexpr uint32_t kFlags = BANTER_REQUEST_IGNORE_END | BANTER_REQUEST_SPECIAL_TEXT | BANTER_REQUEST_REPORT_PROMPT |
                                BANTER_REQUEST_REPORT_THOUGHT;
    if (const banter_result code = banter::api::read_request(config, kFlags, submission)) return code;
    return banter::api::answer(npc->engine->submit(submission, out_request));
  });
}

BANTER_GAME_THREAD banter_result BANTER_CALL banter_npc_add_turn(banter_npc* handle, banter_role role, const char* text,
                                                                 size_t text_len) {
  return guard("banter_npc_add_turn", [&](Caller& caller) -> banter_result {
    banter::engine::NpcObject* const npc = banter::api::npc_of(handle, caller);
    if (npc == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (role < BANTER_ROLE_SYSTEM || role > BANTER_ROLE_ASSISTANT) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "role is %d; give BANTER_ROLE_SYSTEM, _USER or _ASSISTANT.", role);
    }
    std::string_view view;
    if (const banter_result code = banter::api::read_text("text", text, text_len, view)) return code;
    const auto dialogue_role = static_cast<banter::dialogue::Role>(role);
    return banter::api::answer(npc->engine->turn(*npc, false, dialogue_role, view));
  });
}

BANTER_GAME_THREAD banter_result BANTER_CALL banter_npc_reset(banter_npc* handle) {
  return guard("banter_npc_reset", [&](Caller& caller) -> banter_result {
    banter::engine::NpcObject* const npc = banter::api::npc_of(handle, caller);
    if (npc == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    return banter::api::answer(npc->engine->turn(*npc, true, banter::dialogue::Role::kUser, {}));
  });
}

}  // extern "C"
