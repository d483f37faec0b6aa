// How C++ types travel as arguments and results of methods: as Variants (dynamic calls) and as raw values (typed calls).
#pragma once

#include "binding/variant.h"

namespace banter::godot {

/** Of a type T: kType, what Godot calls it; to() and from() a Variant; read() and write() a raw value. */
template <class T>
struct Traits;

template <>
struct Traits<bool> {
  static constexpr GDExtensionVariantType kType = GDEXTENSION_VARIANT_TYPE_BOOL;
  static bool from(const Variant& value) { return value.to_bool(); }
  static bool read(const void* raw) { return *static_cast<const GDExtensionBool*>(raw) != 0; }
  static void write(void* raw, bool value) { *static_cast<GDExtensionBool*>(raw) = value ? 1 : 0; }
};

template <>
struct Traits<int64_t> {
  static constexpr GDExtensionVariantType kType = GDEXTENSION_VARIANT_TYPE_INT;
  static int64_t from(const Variant& value) { return value.to_int(); }
  static int64_t read(const void* raw) { return *static_cast<const int64_t*>(raw); }
  static void write(void* raw, int64_t value) { *static_cast<int64_t*>(raw) = value; }
};

template <>
struct Traits<double> {
  static constexpr GDExtensionVariantType kType = GDEXTENSION_VARIANT_TYPE_FLOAT;
  static double from(const Variant& value) { return value.to_float(); }
  static double read(const void* raw) { return *static_cast<const double*>(raw); }
  static void write(void* raw, double value) { *static_cast<double*>(raw) = value; }
};

template <>
struct Traits<std::string> {
  static constexpr GDExtensionVariantType kType = GDEXTENSION_VARIANT_TYPE_STRING;
  static std::string from(const Variant& value) { return value.to_text(); }
  static std::string read(const void* raw) { return String::utf8_at(raw); }
  static void write(void* raw, const std::string& value) {
    interface().types[kType].destroy(raw);  // the engine made an empty one
    interface().string_new_with_utf8_chars_and_len(raw, value.data(), static_cast<GDExtensionInt>(value.size()));
  }
};

template <>
struct Traits<Object> {
  static constexpr GDExtensionVariantType kType = GDEXTENSION_VARIANT_TYPE_OBJECT;
  static Object from(const Variant& value) { return value.to_object(); }
  static Object read(const void* raw) {
    return Object{raw != nullptr ? *static_cast<const GDExtensionObjectPtr*>(raw) : nullptr};
  }
  static void write(void* raw, Object value) { *static_cast<GDExtensionObjectPtr*>(raw) = value.pointer; }
};

template <>
struct Traits<Reference> {
  static constexpr GDExtensionVariantType kType = GDEXTENSION_VARIANT_TYPE_OBJECT;
  static Reference from(const Variant& value) { return Reference(value); }
  static Reference read(const void* raw) {
    return raw == nullptr ? Reference() : Reference(Variant(Object{interface().ref_get_object(raw)}));
  }
  static void write(void* raw, const Reference& value) {
    if (const Object object = value.object()) interface().ref_set_object(raw, object.pointer);
  }
};

template <>
struct Traits<Variant> {
  static constexpr GDExtensionVariantType kType = GDEXTENSION_VARIANT_TYPE_NIL;
  static Variant from(const Variant& value) { return value; }
  static Variant read(const void* raw) { return variant_at(raw); }
  static void write(void* raw, const Variant& value) {
    interface().variant_destroy(raw);
    interface().variant_new_copy(raw, value.ptr());
  }
};

/** The types that the engine owns by constructor and destructor. */
template <class T>
requires(T::kVariantType > 0) struct Traits<T> {
  static constexpr GDExtensionVariantType kType = T::kVariantType;
  static T from(const Variant& value) { return value.to<T>(); }
  static T read(const void* raw) { return copy_of<T>(raw); }
  static void write(void* raw, const T& value) {
    if (interface().types[kType].destroy != nullptr) interface().types[kType].destroy(raw);
    const GDExtensionConstTypePtr arguments[] = {value.ptr()};
    interface().types[kType].copy(raw, arguments);
  }
};

/** The type as it stands in a signature. */
template <class T>
using Plain = std::remove_cv_t<std::remove_reference_t<T>>;

}  // namespace banter::godot
