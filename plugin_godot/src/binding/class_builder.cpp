#include "binding/class_builder.h"

namespace banter::godot {
namespace {

const GDExtensionInstanceBindingCallbacks kBinding = {
    nullptr, [](void*, void*, void*) {}, [](void*, void*, GDExtensionBool) -> GDExtensionBool { return 1; }};

void attach(const ClassCallbacks& callbacks, Object object, Instance* instance) {
  const StringName name(callbacks.name);
  interface().object_set_instance(object.pointer, name.ptr(), instance);
  interface().object_set_instance_binding(object.pointer, const_cast<ClassCallbacks*>(&callbacks), instance, &kBinding);
}

void notify_created(Object object) {
  // By pointer, not through a Variant: that would take a first reference to a RefCounted object, and free it.
  constexpr int64_t kNotificationHash = 4023243586;
  const GDExtensionMethodBindPtr notification = method_bind("Object", "notification", kNotificationHash);
  if (notification == nullptr) return;
  const int64_t what = kPostInitialize;
  const GDExtensionBool reversed = 0;
  const GDExtensionConstTypePtr arguments[] = {&what, &reversed};
  interface().object_method_bind_ptrcall(notification, object.pointer, arguments, nullptr);
}

GDExtensionObjectPtr create_callback(void* userdata, GDExtensionBool notify) {
  return create_object(*static_cast<const ClassCallbacks*>(userdata), notify != 0).pointer;
}

GDExtensionObjectPtr create_callback_4_3(void* userdata) {
  return create_object(*static_cast<const ClassCallbacks*>(userdata), true).pointer;
}

GDExtensionClassInstancePtr recreate_callback(void* userdata, GDExtensionObjectPtr object) {
  const auto& callbacks = *static_cast<const ClassCallbacks*>(userdata);
  Instance* const instance = callbacks.create(Object{object});
  interface().object_set_instance_binding(object, const_cast<ClassCallbacks*>(&callbacks), instance, &kBinding);
  return instance;
}

void free_callback(void*, GDExtensionClassInstancePtr instance) {
  delete static_cast<Instance*>(instance);
}

void notification_callback(GDExtensionClassInstancePtr instance, int32_t what, GDExtensionBool) {
  static_cast<Instance*>(instance)->notification(what);
}

void warnings_callback(GDExtensionClassInstancePtr instance, const GDExtensionConstTypePtr*,
                       GDExtensionTypePtr result) {
  Traits<PackedStringArray>::write(result,
                                   PackedStringArray(static_cast<Instance*>(instance)->configuration_warnings()));
}

GDExtensionBool property_callback(GDExtensionClassInstancePtr instance, GDExtensionPropertyInfo* property) {
  const auto* const name = static_cast<const void*>(property->name);
  const uint32_t usage = static_cast<Instance*>(instance)->property_usage(StringName::text_at(name), property->usage);
  const bool changes = usage != property->usage;
  property->usage = usage;
  return changes ? 1 : 0;
}

GDExtensionClassCallVirtual virtual_of(GDExtensionConstStringNamePtr name) {
  return StringName("_get_configuration_warnings").is(name) ? &warnings_callback : nullptr;
}

GDExtensionClassCallVirtual virtual_callback(void*, GDExtensionConstStringNamePtr name, uint32_t) {
  return virtual_of(name);
}

GDExtensionClassCallVirtual virtual_callback_4_3(void*, GDExtensionConstStringNamePtr name) {
  return virtual_of(name);
}

/** The fields that the structs of all versions have. */
template <class Info>
void fill(Info& info, const ClassCallbacks& callbacks, bool exposed) {
  info.is_exposed = exposed ? 1 : 0;
  info.notification_func = &notification_callback;
  info.free_instance_func = &free_callback;
  info.validate_property_func = &property_callback;
  info.recreate_instance_func = &recreate_callback;
  info.class_userdata = const_cast<ClassCallbacks*>(&callbacks);
}

void call_callback(void* userdata, GDExtensionClassInstancePtr instance, const GDExtensionConstVariantPtr* arguments,
                   GDExtensionInt count, GDExtensionVariantPtr result, GDExtensionCallError* error) {
  Variant value;
  static_cast<const Method*>(userdata)->call(instance, arguments, count, &value, error);
  if (error->error == GDEXTENSION_CALL_OK) Traits<Variant>::write(result, value);
}

void typed_callback(void* userdata, GDExtensionClassInstancePtr instance, const GDExtensionConstTypePtr* arguments,
                    GDExtensionTypePtr result) {
  static_cast<const Method*>(userdata)->call_typed(instance, arguments, result);
}

/** A GDExtensionPropertyInfo with the names that it points to. */
struct Property {
  StringName name, class_name;
  String hint_text;
  GDExtensionPropertyInfo info{};
  Property(const char* property_name, GDExtensionVariantType type, const char* of_class, const Hint& hint)
      : name(property_name), class_name(of_class), hint_text(hint.text) {
    info = {type, name.ptr(), class_name.ptr(), hint.hint, hint_text.ptr(), hint.usage};
  }
};

/** Properties that stay where they are, and their infos in a row. */
struct PropertyList {
  std::vector<std::unique_ptr<Property>> properties;
  std::vector<GDExtensionPropertyInfo> infos;
  void add(const char* name, GDExtensionVariantType type, uint32_t usage = kUsageDefault) {
    properties.push_back(std::make_unique<Property>(name, type, "", Hint{.usage = usage}));
    infos.push_back(properties.back()->info);
  }
};

}  // namespace

Object create_object(const ClassCallbacks& callbacks, bool notify) {
  const StringName parent(callbacks.parent);
  const bool newer = interface().classdb_construct_object2 != nullptr;
  const Object object{newer ? interface().classdb_construct_object2(parent.ptr())
                            : interface().classdb_construct_object(parent.ptr())};
  attach(callbacks, object, callbacks.create(object));
  if (notify && newer) notify_created(object);
  return object;
}

void Registry::clear() {
  while (!classes_.empty()) {
    interface().classdb_unregister_extension_class(interface().library, classes_.back()->name.ptr());
    classes_.pop_back();
  }
  methods_.clear();
}

void ClassBuilderBase::register_class(const ClassCallbacks& callbacks, const char* parent, bool exposed) {
  const StringName parent_name(parent);
  if (interface().classdb_register_extension_class4 != nullptr) {
    GDExtensionClassCreationInfo4 info{};
    fill(info, callbacks, exposed);
    info.create_instance_func = &create_callback;
    info.get_virtual_func = &virtual_callback;
    interface().classdb_register_extension_class4(interface().library, name_.ptr(), parent_name.ptr(), &info);
  } else {
    GDExtensionClassCreationInfo3 info{};
    fill(info, callbacks, exposed);
    info.create_instance_func = &create_callback_4_3;
    info.get_virtual_func = &virtual_callback_4_3;
    interface().classdb_register_extension_class3(interface().library, name_.ptr(), parent_name.ptr(), &info);
  }
}

void ClassBuilderBase::register_method(const char* name, const Method& method,
                                       const std::vector<const char*>& argument_names, const char* result_class,
                                       uint32_t result_usage) {
  const StringName method_name(name);
  PropertyList arguments;
  for (size_t i = 0; i < method.argument_types.size(); i++) {
    const bool any = method.argument_types[i] == GDEXTENSION_VARIANT_TYPE_NIL;
    arguments.add(i < argument_names.size() ? argument_names[i] : "value", method.argument_types[i],
                  any ? kUsageDefault | kUsageNilIsVariant : kUsageDefault);
  }
  std::vector<GDExtensionClassMethodArgumentMetadata> metadata(arguments.infos.size(),
                                                               GDEXTENSION_METHOD_ARGUMENT_METADATA_NONE);
  std::vector<GDExtensionVariantPtr> defaults;
  for (const Variant& value : method.defaults) defaults.push_back(const_cast<void*>(value.ptr()));
  Property result("", method.result_type, result_class, {.usage = result_usage});
  GDExtensionClassMethodInfo info{};
  info.name = const_cast<void*>(method_name.ptr());
  info.method_userdata = const_cast<Method*>(&method);
  info.call_func = &call_callback;
  info.ptrcall_func = &typed_callback;
  info.method_flags = GDEXTENSION_METHOD_FLAG_NORMAL;
  if (method.is_const) info.method_flags |= GDEXTENSION_METHOD_FLAG_CONST;
  info.has_return_value = method.has_result ? 1 : 0;
  info.return_value_info = &result.info;
  info.argument_count = static_cast<uint32_t>(arguments.infos.size());
  info.arguments_info = arguments.infos.data();
  info.arguments_metadata = metadata.data();
  info.default_argument_count = static_cast<uint32_t>(defaults.size());
  info.default_arguments = defaults.data();
  interface().classdb_register_extension_class_method(interface().library, name_.ptr(), &info);
}

void ClassBuilderBase::register_property(const char* name, GDExtensionVariantType type, const char* setter,
                                         const char* getter, const Hint& hint) {
  const bool is_enum = type == GDEXTENSION_VARIANT_TYPE_INT && *hint.class_name != '\0';
  Hint shown = hint;
  if (is_enum) shown.usage |= kUsageEnum;
  Property property(name, type, hint.class_name, shown);
  const StringName setter_name(setter), getter_name(getter);
  interface().classdb_register_extension_class_property(interface().library, name_.ptr(), &property.info,
                                                        setter_name.ptr(), getter_name.ptr());
}

void ClassBuilderBase::register_signal(const char* name, const std::vector<Parameter>& parameters) {
  const StringName signal_name(name);
  PropertyList list;
  for (const Parameter& parameter : parameters) {
    const bool any = parameter.type == GDEXTENSION_VARIANT_TYPE_NIL;
    list.add(parameter.name, parameter.type, any ? kUsageDefault | kUsageNilIsVariant : kUsageDefault);
  }
  interface().classdb_register_extension_class_signal(interface().library, name_.ptr(), signal_name.ptr(),
                                                      list.infos.data(),
                                                      static_cast<GDExtensionInt>(list.infos.size()));
}

void ClassBuilderBase::constant(const char* enum_name, const char* name, int64_t value) {
  const StringName enum_string(enum_name), constant_string(name);
  interface().classdb_register_extension_class_integer_constant(interface().library, name_.ptr(), enum_string.ptr(),
                                                                constant_string.ptr(), value, 0);
}

void ClassBuilderBase::group(const char* heading) {
  const String text((std::string_view(heading))), prefix;
  interface().classdb_register_extension_class_property_group(interface().library, name_.ptr(), text.ptr(),
                                                              prefix.ptr());
}

}  // namespace banter::godot
