#include "binding/interface.h"

#include <string>

#include "binding/variant.h"

namespace banter::godot {
namespace {

// Callbacks of the engine carry no pointer of ours, so the table has to be reachable without one.
Interface table;

template <class Function>
void look_up(GDExtensionInterfaceGetProcAddress get, const char* name, Function& out) {
  out = reinterpret_cast<Function>(reinterpret_cast<void*>(get(name)));
}

void load_types() {
  for (int i = GDEXTENSION_VARIANT_TYPE_BOOL; i < GDEXTENSION_VARIANT_TYPE_VARIANT_MAX; i++) {
    const auto type = static_cast<GDExtensionVariantType>(i);
    Interface::TypeFunctions& functions = table.types[i];
    functions.to_variant = table.get_variant_from_type_constructor(type);
    functions.from_variant = table.get_variant_to_type_constructor(type);
    if (type == GDEXTENSION_VARIANT_TYPE_OBJECT) continue;
    functions.construct = table.variant_get_ptr_constructor(type, 0);
    functions.copy = table.variant_get_ptr_constructor(type, 1);
    functions.destroy = table.variant_get_ptr_destructor(type);
  }
}

}  // namespace

const Interface& interface() {
  return table;
}

bool load_interface(GDExtensionInterfaceGetProcAddress get, GDExtensionClassLibraryPtr library) {
  table = Interface{};
  table.library = library;
  std::string missing;
#define BANTER_GODOT_LOOK_UP(name, type) \
  look_up(get, #name, table.name);       \
  if (table.name == nullptr) missing += " " #name;
  BANTER_GODOT_FUNCTIONS(BANTER_GODOT_LOOK_UP)
#undef BANTER_GODOT_LOOK_UP
#ifndef BANTER_GODOT_4_3_ONLY  // the tests' library that does without what came later
  look_up(get, "classdb_register_extension_class4", table.classdb_register_extension_class4);
  look_up(get, "classdb_construct_object2", table.classdb_construct_object2);
#endif
  look_up(get, "classdb_register_extension_class3", table.classdb_register_extension_class3);
  look_up(get, "classdb_construct_object", table.classdb_construct_object);
  look_up(get, "editor_help_load_xml_from_utf8_chars_and_len", table.editor_help_load_xml_from_utf8_chars_and_len);
  look_up(get, "print_error_with_message", table.print_error_with_message);
  const bool newer = table.classdb_register_extension_class4 != nullptr && table.classdb_construct_object2 != nullptr;
  const bool older = table.classdb_register_extension_class3 != nullptr && table.classdb_construct_object != nullptr;
  if (!newer && !older) missing += " classdb_register_extension_class4";
  if (!missing.empty()) {
    if (table.print_error_with_message != nullptr) {
      const std::string message = "Banter needs Godot 4.3 or later; this engine lacks" + missing + ".";
      table.print_error_with_message("The addon cannot be used.", message.c_str(), __func__, __FILE__, __LINE__, 1);
    }
    return false;
  }
  load_types();
  return true;
}

GDExtensionMethodBindPtr method_bind(const char* class_name, const char* method, int64_t hash) {
  const StringName class_string(class_name);
  const StringName method_string(method);
  return table.classdb_get_method_bind(class_string.ptr(), method_string.ptr(), hash);
}

}  // namespace banter::godot
