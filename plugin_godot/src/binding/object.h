// C++ objects behind objects of the engine: their creation, notifications, and how each finds the other.
#pragma once

#include <memory>

#include "binding/variant.h"

namespace banter::godot {

// Notifications of Object and Node.
inline constexpr int32_t kPostInitialize = 0, kEnterTree = 10, kExitTree = 11, kReady = 13, kProcess = 17;

/** What every class of ours derives from. The engine owns it: it lives as long as the object of the engine. */
class Instance {
 public:
  virtual ~Instance() = default;
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  virtual void notification(int32_t what) { static_cast<void>(what); }
  /** Texts that the editor shows beside a node that is not set up right. */
  virtual std::vector<std::string> configuration_warnings() const { return {}; }

  /** How a property is shown: PropertyUsageFlags, given those that it was registered with. */
  virtual uint32_t property_usage(std::string_view name, uint32_t usage) const {
    static_cast<void>(name);
    return usage;
  }

  Object object() const { return object_; }
  ObjectId id() const { return id_of(object_); }
  /** Calls a method of the engine's class, "get_parent". */
  template <class... Arguments>
  Variant engine_call(const char* method, const Arguments&... arguments) const {
    return Variant(object_).call(method, arguments...);
  }

 protected:
  explicit Instance(Object object) : object_(object) {}

 private:
  Object object_;
};

/** What differs from class to class in the engine's callbacks. Static: one for each class. */
struct ClassCallbacks {
  const char* name = nullptr;
  const char* parent = nullptr;
  Instance* (*create)(Object object) = nullptr;

  template <class Class>
  static const ClassCallbacks& of(const char* name, const char* parent) {
    storage<Class>() = {name, parent,
                        [](Object object) -> Instance* { return std::make_unique<Class>(object).release(); }};
    return storage<Class>();
  }
  /** Also the token by which an object of the class is known. */
  template <class Class>
  static ClassCallbacks& storage() {
    static ClassCallbacks callbacks;
    return callbacks;
  }
};

/** Makes an object of the engine with ours behind it. */
Object create_object(const ClassCallbacks& callbacks, bool notify);

/** A new object of a class; of a RefCounted one the Variant holds the only reference. */
template <class Class>
Variant create() {
  return Variant(create_object(ClassCallbacks::storage<Class>(), true));
}

/** Ours behind an object of the engine, or nullptr where it is of another class. */
template <class Class>
Class* instance_of(Object object) {
  if (!object) return nullptr;
  return static_cast<Class*>(static_cast<Instance*>(
      interface().object_get_instance_binding(object.pointer, &ClassCallbacks::storage<Class>(), nullptr)));
}
/** Has `method` of an object of ours called when a resource changes, instead of when `before` does. */
inline void follow(Object object, const char* method, const Reference& before, const Reference& after) {
  const Callable callable(object, StringName(method));
  // Connections outlive a reload of the extension, what is behind the objects does not: so they are asked, not remembered.
  const auto is_connected = [&](const Reference& resource) {
    return resource.variant().call("is_connected", "changed", callable).to_bool();
  };
  if (before && is_connected(before)) before.variant().call("disconnect", "changed", callable);
  if (after && !is_connected(after)) after.variant().call("connect", "changed", callable);
}

/** The object that `reference` holds; for those of ours. */
template <class Class>
Class* instance_of(const Reference& reference) {
  return instance_of<Class>(reference.object());
}
template <class Class>
Class* instance_of(ObjectId id) {
  return instance_of<Class>(object_of(id));
}

}  // namespace banter::godot
