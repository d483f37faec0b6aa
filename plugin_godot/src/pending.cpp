#include "pending.h"

namespace banter::godot {
namespace {

/** Calls `method` with a signal's name and arguments on an object that may have been freed. */
void emit(ObjectId target, const char* method, const Variant& first, const char* signal,
          const std::vector<Variant>& arguments) {
  const Object object = object_of(target);
  if (!object) return;
  std::vector<const void*> pointers;
  const Variant name(signal);
  if (!first.is_null()) pointers.push_back(first.ptr());
  pointers.push_back(name.ptr());
  for (const Variant& argument : arguments) pointers.push_back(argument.ptr());
  static_cast<void>(Variant(object).call_with(method, pointers.data(), pointers.size()));
}

}  // namespace

void BanterPending::register_class(Registry& registry) {
  ClassBuilder<BanterPending> builder(registry, "BanterPending", "RefCounted", false);
  builder.method("_complete", &BanterPending::complete_now);
  builder.signal("completed", {{"result", GDEXTENSION_VARIANT_TYPE_NIL}});
}

void BanterPending::complete_later(const Variant& pending, const Variant& result) {
  auto* const instance = instance_of<BanterPending>(pending.to_object());
  if (instance == nullptr) return;
  instance->self_ = pending;
  instance->result_ = result;
  instance->engine_call("call_deferred", "_complete");
}

void BanterPending::complete_now() {
  const Variant self = self_;  // the last reference goes when this function ends
  const Variant result = result_;
  self_ = Variant();
  result_ = Variant();
  static_cast<void>(self.call("emit_signal", "completed", result));
}

void Emissions::complete(const Variant& pending, const Variant& result) {
  if (!pending.is_null()) list_.push_back({id_of(pending.to_object()), pending, "completed", {result}, nullptr});
}

void Emissions::run() {
  const std::vector<Emission> list = std::move(list_);
  list_.clear();
  for (const Emission& emission : list) {
    if (emission.silence != nullptr && *emission.silence) continue;
    emit(emission.target, "emit_signal", {}, emission.signal, emission.arguments);
  }
}

void Emissions::run_later() {
  const std::vector<Emission> list = std::move(list_);
  list_.clear();
  for (const Emission& emission : list) {
    if (!emission.pending.is_null()) {
      BanterPending::complete_later(emission.pending, emission.arguments.front());
    } else {
      emit(emission.target, "call_deferred", Variant("emit_signal"), emission.signal, emission.arguments);
    }
  }
}

}  // namespace banter::godot
