// What concerns the library as a whole: versions, result names, messages, the function table.
#include "api/thread_error.h"
#include "banter/banter.h"
#include "banter/version.h"

namespace {

constexpr banter_api kApi = {
    sizeof(banter_api),
    BANTER_API_VERSION,
    banter_api_version,
    banter_version_string,
    banter_result_name,
    banter_last_error_message,
    banter_engine_config_init,
    banter_engine_create,
    banter_engine_destroy,
    banter_poll,
    banter_wait,
    banter_cancel,
    banter_engine_get_statistics,
    banter_model_config_init,
    banter_model_load,
    banter_model_release,
    banter_model_get_info,
    banter_model_tokenize,
    banter_model_complete,
    banter_model_complete_tokens,
    banter_npc_config_init,
    banter_sampling_config_init,
    banter_request_config_init,
    banter_npc_create,
    banter_npc_destroy,
    banter_npc_say,
    banter_npc_add_turn,
    banter_npc_reset,
    banter_engine_set_frame_budget,
    banter_engine_begin_frame,
    banter_engine_set_cpu_share,
    banter_engine_set_paused,
    banter_npc_create_from_profile,
    banter_save_config_init,
    banter_load_config_init,
    banter_npc_save,
    banter_npc_load,
    banter_engine_get_metrics_json,
    banter_engine_trace_start,
    banter_engine_trace_stop,
    banter_engine_set_budget,
    banter_model_measure,
};

}  // namespace

extern "C" {

uint32_t BANTER_CALL banter_api_version(void) {
  return BANTER_API_VERSION;
}

const char* BANTER_CALL banter_version_string(void) {
  return BANTER_VERSION_STRING;
}

const char* BANTER_CALL banter_result_name(banter_result code) {
#define BANTER_NAME(name) \
  case name:              \
    return #name
  switch (code) {
    BANTER_NAME(BANTER_OK);
    BANTER_NAME(BANTER_ERROR_INVALID_ARGUMENT);
    BANTER_NAME(BANTER_ERROR_OUT_OF_MEMORY);
    BANTER_NAME(BANTER_ERROR_BUSY);
    BANTER_NAME(BANTER_ERROR_NOT_FOUND);
    BANTER_NAME(BANTER_ERROR_UNSUPPORTED);
    BANTER_NAME(BANTER_ERROR_IO);
    BANTER_NAME(BANTER_ERROR_CORRUPT);
    BANTER_NAME(BANTER_ERROR_TEMPLATE);
    BANTER_NAME(BANTER_ERROR_CONTEXT_FULL);
    BANTER_NAME(BANTER_ERROR_CANCELLED);
    BANTER_NAME(BANTER_ERROR_STATE);
    BANTER_NAME(BANTER_ERROR_VERSION);
    BANTER_NAME(BANTER_ERROR_BACKEND);
    BANTER_NAME(BANTER_ERROR_INTERNAL);
    BANTER_NAME(BANTER_ERROR_DEADLINE);
    BANTER_NAME(BANTER_ERROR_FILE_NOT_FOUND);
    BANTER_NAME(BANTER_ERROR_FILE_TRUNCATED);
    BANTER_NAME(BANTER_ERROR_NOT_A_MODEL);
    BANTER_NAME(BANTER_ERROR_MISSING_TENSOR);
    BANTER_NAME(BANTER_ERROR_UNSUPPORTED_ARCHITECTURE);
    BANTER_NAME(BANTER_ERROR_UNSUPPORTED_TYPE);
    BANTER_NAME(BANTER_ERROR_UNSUPPORTED_TOKENIZER);
    BANTER_NAME(BANTER_ERROR_NO_TEMPLATE);
    BANTER_NAME(BANTER_ERROR_KV_POOL_EXHAUSTED);
    BANTER_NAME(BANTER_ERROR_BUDGET_EXCEEDED);
    BANTER_NAME(BANTER_ERROR_PROMPT_TOO_LONG);
    default:
      return "BANTER_ERROR_UNKNOWN";
  }
#undef BANTER_NAME
}

const char* BANTER_CALL banter_last_error_message(void) {
  return banter::api::thread_error();
}

const banter_api* BANTER_CALL banter_get_api(uint32_t version) {
  return version >> 16 == BANTER_API_VERSION >> 16 ? &kApi : nullptr;
}

}  // extern "C"
