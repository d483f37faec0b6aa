// banter_model_…
#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

#include "api/arguments.h"
#include "api/guard.h"
#include "api/handles.h"
#include "banter/banter.h"
#include "engine/engine.h"
#include "engine/loaded_model.h"
#include "formats/tensor_type.h"
#include "model/hyperparameters.h"
#include "model/kv_report.h"

using banter::api::Caller;
using banter::api::fail;
using banter::api::guard;

namespace {

banter_result read_io(const banter_io* in, banter_io& out) noexcept {
  out = {};
  if (const banter_result code = banter::api::read_struct("banter_io", in, out)) return code;
  if (out.flags != 0) return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_io.flags must be 0.");
  if (out.open == nullptr || out.size == nullptr || out.read_at == nullptr || out.close == nullptr) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_io needs open, size, read_at and close.");
  }
  return BANTER_OK;
}

banter_result read_source(const banter_model_config& c, banter::engine::LoadSource& out) {
  const bool from_memory = c.memory != nullptr || c.memory_bytes != 0;
  std::string_view path;
  if (const auto code = banter::api::read_text("banter_model_config.path", c.path, c.path_len, path)) return code;
  if (from_memory != path.empty()) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_model_config needs either a path or memory, and not both.");
  }
  if (path.find('\0') != std::string_view::npos) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_model_config.path has a zero byte in it.");
  }
  if (from_memory) {
    if (c.memory == nullptr || c.memory_bytes == 0 || c.memory_bytes > PTRDIFF_MAX || c.io != nullptr) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT,
                  "banter_model_config.memory and memory_bytes must both be given, and io must be NULL with them.");
    }
    out.memory = {static_cast<const std::byte*>(c.memory), static_cast<size_t>(c.memory_bytes)};
    return BANTER_OK;
  }
  out.path.assign(path);
  if (c.io == nullptr) return BANTER_OK;
  banter_io io;
  if (const banter_result code = read_io(c.io, io)) return code;
  out.io = io;
  return BANTER_OK;
}

/** By BANTER_KV_… constant, from BANTER_KV_F16 on. */
constexpr banter::ops::KvType kKvTypes[] = {banter::ops::KvType::kF16, banter::ops::KvType::kBF16,
                                            banter::ops::KvType::kF32, banter::ops::KvType::kI8,
                                            banter::ops::KvType::kI4};
static_assert(BANTER_KV_F16 == 1 && BANTER_KV_INT4 == std::size(kKvTypes));

banter_result read_kv_type(banter_kv_type type, std::optional<banter::ops::KvType>& out) noexcept {
  if (type < BANTER_KV_AUTO || type > BANTER_KV_INT4) {
    return fail(BANTER_ERROR_UNSUPPORTED, "banter_model_config.kv_type is %d; use a BANTER_KV_… constant.", type);
  }
  if (type != BANTER_KV_AUTO) out = kKvTypes[type - 1];
  return BANTER_OK;
}

banter_result read_config(const banter_model_config* in, banter::engine::LoadSource& source,
                          banter::engine::LoadSettings& settings, banter_model_config& c) {
  banter_model_config_init(&c, sizeof c);
  if (const banter_result code = banter::api::read_struct("banter_model_config", in, c)) return code;
  constexpr uint32_t kFlags = BANTER_MODEL_NO_PREFIX_SHARING | BANTER_MODEL_SOURCE_STAYS;
  if ((c.flags & ~kFlags) != 0 || c.reserved0 != 0 || c.reserved2 != 0) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT,
                "banter_model_config.flags has unknown bits (0x%x), or reserved0 or reserved2 is not 0.", c.flags);
  }
  if (const banter_result code = read_source(c, source)) return code;
  std::string_view chat_template;
  if (const auto code = banter::api::read_text("banter_model_config.chat_template", c.chat_template,
                                               c.chat_template_len, chat_template)) {
    return code;
  }
  if (c.context_tokens != 0 && (c.context_tokens < 16 || c.context_tokens > 1u << 20)) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT,
                "banter_model_config.context_tokens is %u; give 0 for the default, or 16 to 1048576.",
                c.context_tokens);
  }
  if (c.speculation < BANTER_SPECULATION_NONE || c.speculation > BANTER_SPECULATION_DRAFT || c.reserved1 != 0) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT,
                "banter_model_config.speculation is %d; give NONE (0), NGRAM (1) or DRAFT (2), and 0 as reserved1.",
                c.speculation);
  }
  if ((c.speculation == BANTER_SPECULATION_DRAFT) != (c.draft_model != nullptr)) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT,
                "banter_model_config.draft_model must be given with BANTER_SPECULATION_DRAFT, and only then.");
  }
  const bool is_borrowed = c.memory != nullptr || c.io != nullptr;
  source.stays = !is_borrowed || (c.flags & BANTER_MODEL_SOURCE_STAYS) != 0;
  settings.speculation = c.speculation;
  if (const banter_result code = read_kv_type(c.kv_type, settings.kv_type)) return code;
  settings.chat_template.assign(chat_template);
  settings.context_tokens = static_cast<int32_t>(c.context_tokens);
  settings.kv_budget_bytes = c.kv_budget_bytes;
  settings.share_prefixes = (c.flags & BANTER_MODEL_NO_PREFIX_SHARING) == 0;
  return BANTER_OK;
}

BANTER_GAME_THREAD banter_result submit(Caller& caller, banter_model* handle, const banter_request_config* config,
                                        banter_request_id* out_request,
                                        banter::engine::Submission& submission) noexcept {
  using namespace banter::engine;
  if (out_request == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_request is NULL.");
  *out_request = 0;
  ModelObject* const model = banter::api::model_of(handle, caller);
  if (model == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
  uint32_t flags = BANTER_REQUEST_IGNORE_END | BANTER_REQUEST_SPECIAL_TEXT | BANTER_REQUEST_REPORT_PROMPT |
                   BANTER_REQUEST_REPORT_THOUGHT;
  if (submission.kind == RequestKind::kComplete) flags |= BANTER_REQUEST_PARSE_SPECIAL;
  submission.model = model;
  submission.user_data = model->user_data;
  if (const banter_result code = banter::api::read_request(config, flags, submission)) return code;
  return banter::api::answer(model->engine->submit(submission, out_request));
}

/** What the CPU backend takes where a load leaves it the choice. */
banter::ops::KvType usual_kv_type(const banter::formats::Gguf& file) {
  const auto is_kept_exactly = [](const banter::formats::GgufTensor& tensor) {
    return tensor.n_dims < 2 || tensor.type == static_cast<uint32_t>(banter::formats::TensorType::kF32);
  };
  const bool all = std::all_of(file.tensors().begin(), file.tensors().end(), is_kept_exactly);
  return all ? banter::ops::KvType::kF32 : banter::ops::KvType::kF16;
}

banter_kv_type kv_type_constant(banter::ops::KvType type) {
  const auto* const found = std::find(std::begin(kKvTypes), std::end(kKvTypes), type);
  return static_cast<banter_kv_type>(BANTER_KV_F16 + (found - std::begin(kKvTypes)));
}

banter_result measure(const banter::formats::Gguf& file, const banter::engine::LoadSettings& settings,
                      banter_model_needs& out) {
  const auto kv = banter::model::read_kv_report(file);
  if (!kv) return fail(kv.error());
  const banter::ops::KvType type = settings.kv_type.value_or(usual_kv_type(file));
  if (!kv->supports(type)) {
    return fail(BANTER_ERROR_UNSUPPORTED, "The model's attention heads cannot be kept as %s; choose another kv_type.",
                banter::ops::kv_type_name(type));
  }
  const auto parameters = banter::model::read_hyperparameters(file, settings.context_tokens);
  if (!parameters) return fail(parameters.error());  // a context that is too long
  const uint64_t per_token = kv->bytes_per_token(type);
  if (per_token > UINT32_MAX) {
    return fail(BANTER_ERROR_CORRUPT, "The model claims to keep %llu bytes of every token, which no model does.",
                static_cast<unsigned long long>(per_token));
  }
  for (const banter::formats::GgufTensor& tensor : file.tensors()) {
    if (banter::formats::type_traits(tensor.type) == nullptr) {
      return fail(BANTER_ERROR_UNSUPPORTED_TYPE,
                  "The model has tensors of the type %u, which this version does not know.", tensor.type);
    }
    out.weight_bytes += tensor.bytes;
    out.parameters += tensor.elements();
  }
  out.file_bytes = file.file_bytes();
  out.step_buffer_bytes = kv->step_buffer_bytes;
  constexpr int32_t kUsualStep = 256;  // banter_engine_config.step_tokens
  out.kv_bytes = kv->conversation_bytes(type, parameters->context, kUsualStep);
  out.kv_bytes_per_token = static_cast<uint32_t>(per_token);
  out.context_tokens = static_cast<uint32_t>(parameters->context);
  out.trained_context_tokens = static_cast<uint32_t>(kv->trained_context);
  out.kv_type = kv_type_constant(type);
  return BANTER_OK;
}

}  // namespace

extern "C" {

void BANTER_CALL banter_model_config_init(banter_model_config* config, size_t struct_size) {
  banter::api::write_defaults(banter_model_config{}, config, struct_size);
}

banter_result BANTER_CALL banter_model_load(banter_engine* handle, const banter_model_config* config,
                                            banter_model** out_model, banter_request_id* out_request) {
  return guard("banter_model_load", [&](Caller& caller) -> banter_result {
    if (out_request != nullptr) *out_request = 0;
    if (out_model == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_model is NULL.");
    *out_model = nullptr;
    banter::engine::Engine* const engine = banter::api::engine_of(handle, caller);
    if (engine == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (config == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_model_config is NULL.");
    banter::engine::LoadSource source;
    banter::engine::LoadSettings settings;
    banter_model_config checked;
    if (const banter_result code = read_config(config, source, settings, checked)) return code;
    banter::engine::ModelObject* draft = nullptr;
    if (checked.draft_model != nullptr) {
      draft = banter::api::model_of(checked.draft_model, caller);
      if (draft == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
      if (draft->engine != engine) {
        return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_model_config.draft_model belongs to another engine.");
      }
    }
    banter_request_id request = 0;
    auto model = engine->load(std::move(source), std::move(settings), draft, checked.user_data, &request);
    if (!model) return fail(model.error());
    *out_model = reinterpret_cast<banter_model*>(*model);
    if (out_request != nullptr) *out_request = request;
    return BANTER_OK;
  });
}

void BANTER_CALL banter_model_release(banter_model* handle) {
  if (handle == nullptr) return;
  (void)guard("banter_model_release", [&](Caller& caller) -> banter_result {
    banter::engine::ModelObject* const model = banter::api::model_of(handle, caller);
    if (model == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    model->engine->release(*model);
    return BANTER_OK;
  });
}

banter_result BANTER_CALL banter_model_get_info(banter_model* handle, banter_model_info* out_info) {
  return guard("banter_model_get_info", [&](Caller& caller) -> banter_result {
    banter::engine::ModelObject* const model = banter::api::model_of(handle, caller);
    if (model == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (out_info == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_info is NULL.");
    if (model->status.load(std::memory_order_acquire) != banter::engine::ModelObject::kReady) {
      return fail(BANTER_ERROR_STATE, "The model is not loaded (yet); wait for MODEL_READY.");
    }
    return banter::api::write_struct("banter_model_info", model->facts.load(std::memory_order_acquire)->info, out_info);
  });
}

banter_result BANTER_CALL banter_model_measure(const banter_model_config* config, banter_model_needs* out_needs) {
  return guard("banter_model_measure", [&](Caller&) -> banter_result {
    if (out_needs == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_needs is NULL.");
    if (config == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_model_config is NULL.");
    banter::engine::LoadSource source;
    banter::engine::LoadSettings settings;
    banter_model_config checked;
    if (const banter_result code = read_config(config, source, settings, checked)) return code;
    const auto file = banter::engine::open_source(source);
    if (!file) return fail(file.error());
    banter_model_needs needs{};
    if (const banter_result code = measure(*file, settings, needs)) return code;
    return banter::api::write_struct("banter_model_needs", needs, out_needs);
  });
}

banter_result BANTER_CALL banter_model_tokenize(banter_model* handle, const char* text, size_t text_len,
                                                int32_t* out_tokens, size_t capacity, size_t* out_count) {
  return guard("banter_model_tokenize", [&](Caller& caller) -> banter_result {
    if (out_count == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_count is NULL.");
    *out_count = 0;
    banter::engine::ModelObject* const model = banter::api::model_of(handle, caller);
    if (model == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (capacity > 0 && out_tokens == nullptr) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_tokens is NULL, but capacity is %zu.", capacity);
    }
    std::string_view view;
    if (const banter_result code = banter::api::read_text("text", text, text_len, view)) return code;
    if (model->status.load(std::memory_order_acquire) != banter::engine::ModelObject::kReady) {
      return fail(BANTER_ERROR_STATE, "The model is not loaded (yet); wait for MODEL_READY.");
    }
    std::vector<int32_t> ids;
    model->tokenizer->encode(view, false, ids);
    if (capacity > 0 && !ids.empty()) {
      std::memcpy(out_tokens, ids.data(), std::min(capacity, ids.size()) * sizeof ids[0]);
    }
    *out_count = ids.size();
    return BANTER_OK;
  });
}

BANTER_GAME_THREAD banter_result BANTER_CALL banter_model_complete(banter_model* handle, const char* text,
                                                                   size_t text_len, const banter_request_config* config,
                                                                   banter_request_id* out_request) {
  return guard("banter_model_complete", [&](Caller& caller) -> banter_result {
    if (out_request != nullptr) *out_request = 0;
    banter::engine::Submission submission;
    submission.kind = banter::engine::RequestKind::kComplete;
    if (const banter_result code = banter::api::read_text("text", text, text_len, submission.text)) return code;
    return submit(caller, handle, config, out_request, submission);
  });
}

BANTER_GAME_THREAD banter_result BANTER_CALL banter_model_complete_tokens(banter_model* handle, const int32_t* tokens,
                                                                          size_t token_count,
                                                                          const banter_request_config* config,
                                                                          banter_request_id* out_request) {
  return guard("banter_model_complete_tokens", [&](Caller& caller) -> banter_result {
    if (out_request != nullptr) *out_request = 0;
    if (tokens == nullptr || token_count == 0 || token_count > PTRDIFF_MAX / sizeof(int32_t)) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "tokens is NULL, or its count is 0 or absurd (%zu).", token_count);
    }
    banter::engine::Submission submission;
    submission.kind = banter::engine::RequestKind::kCompleteTokens;
    submission.tokens = {tokens, token_count};
    return submit(caller, handle, config, out_request, submission);
  });
}

}  // extern "C"
