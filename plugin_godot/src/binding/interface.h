// The functions of Godot's C interface that the addon uses, looked up once when the engine opens the extension.
#pragma once

#include <gdextension_interface.h>

#include <cstdint>

namespace banter::godot {

// Member, its type GDExtensionInterface…, the name that the engine knows it by. All exist since Godot 4.3.
#define BANTER_GODOT_FUNCTIONS(X)                                                                    \
  X(variant_new_copy, VariantNewCopy)                                                                \
  X(variant_new_nil, VariantNewNil)                                                                  \
  X(variant_destroy, VariantDestroy)                                                                 \
  X(variant_call, VariantCall)                                                                       \
  X(variant_get_type, VariantGetType)                                                                \
  X(variant_can_convert_strict, VariantCanConvertStrict)                                             \
  X(get_variant_from_type_constructor, GetVariantFromTypeConstructor)                                \
  X(get_variant_to_type_constructor, GetVariantToTypeConstructor)                                    \
  X(variant_get_ptr_constructor, VariantGetPtrConstructor)                                           \
  X(variant_get_ptr_destructor, VariantGetPtrDestructor)                                             \
  X(variant_get_ptr_builtin_method, VariantGetPtrBuiltinMethod)                                      \
  X(string_new_with_utf8_chars_and_len, StringNewWithUtf8CharsAndLen)                                \
  X(string_to_utf8_chars, StringToUtf8Chars)                                                         \
  X(string_name_new_with_utf8_chars, StringNameNewWithUtf8Chars)                                     \
  X(dictionary_operator_index, DictionaryOperatorIndex)                                              \
  X(array_operator_index, ArrayOperatorIndex)                                                        \
  X(packed_byte_array_operator_index, PackedByteArrayOperatorIndex)                                  \
  X(packed_byte_array_operator_index_const, PackedByteArrayOperatorIndexConst)                       \
  X(packed_string_array_operator_index, PackedStringArrayOperatorIndex)                              \
  X(packed_string_array_operator_index_const, PackedStringArrayOperatorIndexConst)                   \
  X(object_method_bind_call, ObjectMethodBindCall)                                                   \
  X(object_method_bind_ptrcall, ObjectMethodBindPtrcall)                                             \
  X(object_set_instance, ObjectSetInstance)                                                          \
  X(object_set_instance_binding, ObjectSetInstanceBinding)                                           \
  X(object_get_instance_binding, ObjectGetInstanceBinding)                                           \
  X(object_get_instance_from_id, ObjectGetInstanceFromId)                                            \
  X(object_get_instance_id, ObjectGetInstanceId)                                                     \
  X(ref_get_object, RefGetObject)                                                                    \
  X(ref_set_object, RefSetObject)                                                                    \
  X(global_get_singleton, GlobalGetSingleton)                                                        \
  X(file_access_get_buffer, FileAccessGetBuffer)                                                     \
  X(classdb_get_method_bind, ClassdbGetMethodBind)                                                   \
  X(classdb_register_extension_class_method, ClassdbRegisterExtensionClassMethod)                    \
  X(classdb_register_extension_class_integer_constant, ClassdbRegisterExtensionClassIntegerConstant) \
  X(classdb_register_extension_class_property, ClassdbRegisterExtensionClassProperty)                \
  X(classdb_register_extension_class_property_group, ClassdbRegisterExtensionClassPropertyGroup)     \
  X(classdb_register_extension_class_signal, ClassdbRegisterExtensionClassSignal)                    \
  X(classdb_unregister_extension_class, ClassdbUnregisterExtensionClass)

/** The interface. Filled before anything else of the extension runs and only read afterwards, so any thread may use it. */
struct Interface {
#define BANTER_GODOT_MEMBER(name, type) GDExtensionInterface##type name = nullptr;
  BANTER_GODOT_FUNCTIONS(BANTER_GODOT_MEMBER)
#undef BANTER_GODOT_MEMBER

  // Godot 4.4 and later; without them their elders are used.
  GDExtensionInterfaceClassdbRegisterExtensionClass4 classdb_register_extension_class4 = nullptr;
  GDExtensionInterfaceClassdbConstructObject2 classdb_construct_object2 = nullptr;
  // Godot 4.3; absent where a later engine was built without what is deprecated.
  GDExtensionInterfaceClassdbRegisterExtensionClass3 classdb_register_extension_class3 = nullptr;
  GDExtensionInterfaceClassdbConstructObject classdb_construct_object = nullptr;
  // Editor builds only.
  GDExtensionsInterfaceEditorHelpLoadXmlFromUtf8CharsAndLen editor_help_load_xml_from_utf8_chars_and_len = nullptr;
  GDExtensionInterfacePrintErrorWithMessage print_error_with_message = nullptr;

  GDExtensionClassLibraryPtr library = nullptr;

  struct TypeFunctions {
    GDExtensionVariantFromTypeConstructorFunc to_variant = nullptr;
    GDExtensionTypeFromVariantConstructorFunc from_variant = nullptr;
    GDExtensionPtrConstructor construct = nullptr;
    GDExtensionPtrConstructor copy = nullptr;
    GDExtensionPtrDestructor destroy = nullptr;
  };
  TypeFunctions types[GDEXTENSION_VARIANT_TYPE_VARIANT_MAX];
};

/** The one interface of the process: the engine opens an extension once. */
const Interface& interface();

/** Looks everything up; false, with a line in Godot's log, where the engine is too old. */
bool load_interface(GDExtensionInterfaceGetProcAddress get_proc_address, GDExtensionClassLibraryPtr library);

/** A method of a class of the engine, found by name and the hash of its signature; nullptr where it has another one. */
GDExtensionMethodBindPtr method_bind(const char* class_name, const char* method, int64_t hash);

}  // namespace banter::godot
