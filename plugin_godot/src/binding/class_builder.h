// Registers C++ classes with Godot: what a node class says about itself, in one function.
//
//     ClassBuilder<BanterNPC> npc(registry, "BanterNPC", "Node");
//     npc.method("say", &BanterNPC::say, {"text"});
//     npc.property("persona", &BanterNPC::persona, &BanterNPC::set_persona, {.hint = kHintMultiline});
//     npc.signal("text_received", {{"text", GDEXTENSION_VARIANT_TYPE_STRING}});
#pragma once

#include <memory>

#include "binding/method.h"
#include "binding/object.h"

namespace banter::godot {

// PropertyHint of the engine.
inline constexpr uint32_t kHintNone = 0, kHintRange = 1, kHintEnum = 2, kHintFile = 13, kHintResource = 17,
                          kHintMultiline = 18, kHintTypeString = 23, kHintArrayType = 31, kHintNodeType = 34;
// PropertyUsageFlags of the engine.
inline constexpr uint32_t kUsageDefault = 6, kUsageNone = 0, kUsageReadOnly = 1u << 28, kUsageEditor = 4,
                          kUsageNilIsVariant = 1u << 17, kUsageEnum = 1u << 16;

/** An argument of a signal. */
struct Parameter {
  const char* name;
  GDExtensionVariantType type;
};

/** How the inspector shows a property, and what it allows. */
struct Hint {
  uint32_t hint = kHintNone;
  const char* text = "";
  uint32_t usage = kUsageDefault;
  const char* class_name = "";  // of objects, and of enums "Class.Enum"
};

/** Everything that was registered, so that it can be taken back. One for each extension; main thread only. */
class Registry {
 public:
  /** Unregisters the classes, the last one first. */
  void clear();

 private:
  template <class Class>
  friend class ClassBuilder;
  struct ClassName {
    StringName name;
  };
  const Method* keep(std::unique_ptr<Method> method) {
    methods_.push_back(std::move(method));
    return methods_.back().get();
  }
  std::vector<std::unique_ptr<Method>> methods_;
  std::vector<std::unique_ptr<ClassName>> classes_;
};

/** The part of registering that does not depend on the class's type. */
class ClassBuilderBase {
 protected:
  void register_class(const ClassCallbacks& callbacks, const char* parent, bool exposed);
  void register_method(const char* name, const Method& method, const std::vector<const char*>& argument_names,
                       const char* result_class, uint32_t result_usage);
  void register_property(const char* name, GDExtensionVariantType type, const char* setter, const char* getter,
                         const Hint& hint);
  void register_signal(const char* name, const std::vector<Parameter>& parameters);

 public:
  void constant(const char* enum_name, const char* name, int64_t value);
  /** The properties that follow stand under this heading. */
  void group(const char* heading);

 protected:
  explicit ClassBuilderBase(const char* name) : name_(name) {}
  StringName name_;
};

template <class Class>
class ClassBuilder : public ClassBuilderBase {
 public:
  /** `exposed`: scripts may name the class. */
  ClassBuilder(Registry& registry, const char* name, const char* parent, bool exposed = true)
      : ClassBuilderBase(name), registry_(registry) {
    registry.classes_.push_back(std::make_unique<Registry::ClassName>(Registry::ClassName{StringName(name)}));
    register_class(ClassCallbacks::of<Class>(name, parent), parent, exposed);
  }

  /** `result_class`: of an object, the class; of an enum, its name, "Error". */
  template <class Function>
  void method(const char* name, Function function, std::vector<const char*> argument_names = {},
              std::vector<Variant> defaults = {}, const char* result_class = "") {
    auto method = std::make_unique<MemberMethod<Function>>(function);
    method->defaults = std::move(defaults);
    uint32_t usage = kUsageDefault;
    if (*result_class != '\0' && method->result_type == GDEXTENSION_VARIANT_TYPE_INT) usage |= kUsageEnum;
    if (method->has_result && method->result_type == GDEXTENSION_VARIANT_TYPE_NIL) usage |= kUsageNilIsVariant;
    register_method(name, *registry_.keep(std::move(method)), argument_names, result_class, usage);
  }

  /** Registers get_NAME (or is_NAME for truth values) and set_NAME as well. */
  template <class Getter, class Setter>
  void property(const char* name, Getter getter, Setter setter, const Hint& hint = {}) {
    using Type = typename Signature<Getter>::Result;
    const std::string get = (std::is_same_v<Type, bool> ? "is_" : "get_") + std::string(name);
    const std::string set = "set_" + std::string(name);
    method(get.c_str(), getter, {}, {}, hint.class_name);
    method(set.c_str(), setter, {"value"});
    register_property(name, Traits<Type>::kType, set.c_str(), get.c_str(), hint);
  }
  /** A property that can only be read, and is neither saved nor shown in the inspector. */
  template <class Getter>
  void read_only(const char* name, Getter getter, const char* class_name = "") {
    using Type = typename Signature<Getter>::Result;
    const std::string get = (std::is_same_v<Type, bool> ? "is_" : "get_") + std::string(name);
    method(get.c_str(), getter, {}, {}, class_name);
    register_property(name, Traits<Type>::kType, "", get.c_str(), {.usage = kUsageNone, .class_name = class_name});
  }

  void signal(const char* name, const std::vector<Parameter>& parameters = {}) { register_signal(name, parameters); }

 private:
  Registry& registry_;
};

}  // namespace banter::godot
