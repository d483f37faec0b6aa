// From the host's opaque handles to objects, and back.
#pragma once

#include <cstdint>

#include "api/guard.h"
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
inline engine::Engine* engine_of(banter_engine* handle, Caller& caller) noexcept {
  auto* const engine = object_of<engine::Engine>(handle, engine::ObjectMagic::kEngine, "engine");
  caller.engine = engine;
  return engine;
}
inline engine::ModelObject* model_of(banter_model* handle, Caller& caller) noexcept {
  auto* const model = object_of<engine::ModelObject>(handle, engine::ObjectMagic::kModel, "model");
  if (model != nullptr) caller.engine = model->engine;
  return model;
}
inline engine::NpcObject* npc_of(banter_npc* handle, Caller& caller) noexcept {
  auto* const npc = object_of<engine::NpcObject>(handle, engine::ObjectMagic::kNpc, "npc");
  if (npc != nullptr) caller.engine = npc->engine;
  return npc;
}

/** The engine's answer to the host. */
inline banter_result answer(const engine::Refusal& refusal) noexcept {
  return refusal ? fail_plainly(refusal.code, refusal.message) : BANTER_OK;
}

}  // namespace banter::api
