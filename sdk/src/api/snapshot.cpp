// banter_npc_save, banter_npc_load
#include <memory>

#include "api/arguments.h"
#include "api/guard.h"
#include "api/handles.h"
#include "banter/banter.h"
#include "engine/engine.h"

using banter::api::Caller;
using banter::api::fail;
using banter::api::guard;

namespace {

banter::engine::Submission submission_of(banter::engine::RequestKind kind, banter::engine::NpcObject& npc,
                                         uint32_t flags, void* user_data) {
  banter::engine::Submission submission;
  submission.kind = kind;
  submission.model = npc.model;
  submission.npc = &npc;
  submission.user_data = user_data != nullptr ? user_data : npc.user_data;
  submission.flags = flags;
  return submission;
}

}  // namespace

extern "C" {

void BANTER_CALL banter_save_config_init(banter_save_config* config, size_t struct_size) {
  banter::api::write_defaults(banter_save_config{}, config, struct_size);
}

void BANTER_CALL banter_load_config_init(banter_load_config* config, size_t struct_size) {
  banter::api::write_defaults(banter_load_config{}, config, struct_size);
}

banter_result BANTER_CALL banter_npc_save(banter_npc* handle, const banter_save_config* config,
                                          banter_request_id* out_request) {
  return guard("banter_npc_save", [&](Caller& caller) -> banter_result {
    if (out_request == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_request is NULL.");
    *out_request = 0;
    banter::engine::NpcObject* const npc = banter::api::npc_of(handle, caller);
    if (npc == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    banter_save_config c;
    banter_save_config_init(&c, sizeof c);
    if (config != nullptr) {
      if (const banter_result code = banter::api::read_struct("banter_save_config", config, c)) return code;
    }
    if ((c.flags & ~static_cast<uint32_t>(BANTER_SAVE_KV_PAGES)) != 0) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_save_config.flags is 0x%x; give BANTER_SAVE_… bits.", c.flags);
    }
    return banter::api::answer(npc->engine->submit(
        submission_of(banter::engine::RequestKind::kSave, *npc, c.flags, c.user_data), out_request));
  });
}

banter_result BANTER_CALL banter_npc_load(banter_npc* handle, const void* snapshot, size_t snapshot_size,
                                          const banter_load_config* config, banter_request_id* out_request) {
  return guard("banter_npc_load", [&](Caller& caller) -> banter_result {
    if (out_request == nullptr) return fail(BANTER_ERROR_INVALID_ARGUMENT, "out_request is NULL.");
    *out_request = 0;
    banter::engine::NpcObject* const npc = banter::api::npc_of(handle, caller);
    if (npc == nullptr) return BANTER_ERROR_INVALID_ARGUMENT;
    if (snapshot == nullptr || snapshot_size == 0 || snapshot_size > PTRDIFF_MAX) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "snapshot is NULL, or its size %zu is not one of memory.",
                  snapshot_size);
    }
    banter_load_config c;
    banter_load_config_init(&c, sizeof c);
    if (config != nullptr) {
      if (const banter_result code = banter::api::read_struct("banter_load_config", config, c)) return code;
    }
    if ((c.flags & ~static_cast<uint32_t>(BANTER_LOAD_KEEP_PERSONA)) != 0) {
      return fail(BANTER_ERROR_INVALID_ARGUMENT, "banter_load_config.flags is 0x%x; give BANTER_LOAD_… bits.", c.flags);
    }
    auto blob = std::make_unique<banter::engine::Blob>();
    const auto* const bytes = static_cast<const std::byte*>(snapshot);
    blob->bytes.assign(bytes, bytes + snapshot_size);
    auto submission = submission_of(banter::engine::RequestKind::kRestore, *npc, c.flags, c.user_data);
    submission.blob = blob.get();
    const banter::engine::Refusal refusal = npc->engine->submit(submission, out_request);
    if (!refusal) (void)blob.release();  // the request's now
    return banter::api::answer(refusal);
  });
}

}  // extern "C"
