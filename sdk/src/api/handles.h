// From the host's opaque handles to objects, and back.
#pragma once

#include <cstdint>

#include "api/thread_error.h"
#include "banter/types.h"
#include "engine/engine.h"
#include "engine/objects.h"

namespace banter::api {

/** The object, or null (with fail() called) for NULL and for a handle of another kind. */
template <class Object, class Handle>
Object* object_of(Handle* handle, engine::ObjectMagic magic, const char* what) noexcept {
  if (handle == nullptr) {
    fail(BANTER_ERROR_INVALID_ARGUMENT, "The %s is NULL.", what);
    return nullptr;
  }
  auto* const object = reinterpret_cast<Object*>(handle);
  if (reinterpret_cast<uintptr_t>(handle) % alignof(Object) != 0 || object->magic != magic) {
    fail(BANTER_ERROR_INVALID_ARGUMENT, "The %s is not a living %s: destroyed, or a handle of another kind.", what,
         what);
    return nullptr;
  }
  return object;
}
inline engine::Engine* engine_of(banter_engine* handle) noexcept {
  return object_of<engine::Engine>(handle, engine::ObjectMagic::kEngine, "engine");
}
inline engine::ModelObject* model_of(banter_model* handle) noexcept {
  return object_of<engine::ModelObject>(handle, engine::ObjectMagic::kModel, "model");
}
inline engine::NpcObject* npc_of(banter_npc* handle) noexcept {
  return object_of<engine::NpcObject>(handle, engine::ObjectMagic::kNpc, "npc");
}

/** The engine's answer to the host; refused arguments are logged where the host asked for it. */
inline banter_result answer(const engine::Engine& engine, const char* function,
                            const engine::Refusal& refusal) noexcept {
  if (!refusal) return BANTER_OK;
  fail(refusal.code, "%s", refusal.message);
  if (engine.config().validate) engine.config().log.write(BANTER_LOG_WARNING, refusal.message);
  (void)function;
  return refusal.code;
}

}  // namespace banter::api
