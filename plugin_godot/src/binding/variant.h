// Godot's values as C++ values: what owns engine memory frees it, and text is UTF-8 in std::string on our side.
//
// Thread safety: as the engine's own values, which is that of std::string: any thread, one at a time for each value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "binding/interface.h"

namespace banter::godot {

/** Names an object of the engine for its whole life, and never another one; 0: none. */
using ObjectId = GDObjectInstanceID;

/** A pointer to an object of the engine, not owned. */
struct Object {
  GDExtensionObjectPtr pointer = nullptr;
  explicit operator bool() const { return pointer != nullptr; }
};

/** A value that the engine owns by its type's constructors and destructor: 16 bytes hold any that we use. */
template <GDExtensionVariantType kType>
class Builtin {
 public:
  static constexpr GDExtensionVariantType kVariantType = kType;

  Builtin() { interface().types[kType].construct(storage_, nullptr); }
  Builtin(const Builtin& other) { copy_from(other.storage_); }
  Builtin& operator=(const Builtin& other) {
    if (this != &other) {
      destroy();
      copy_from(other.storage_);
    }
    return *this;
  }
  ~Builtin() { destroy(); }

  void* ptr() { return storage_; }
  const void* ptr() const { return storage_; }

 protected:
  struct Uninitialized {};
  explicit Builtin(Uninitialized) {}
  void copy_from(const void* other) {
    const GDExtensionConstTypePtr arguments[] = {other};
    interface().types[kType].copy(storage_, arguments);
  }
  void destroy() {
    if (interface().types[kType].destroy != nullptr) interface().types[kType].destroy(storage_);
  }

  alignas(8) std::byte storage_[16];
};

/** Makes the value of type T that stands at `pointer` a value of ours. */
template <class T>
T copy_of(const void* pointer) {
  T value;
  const GDExtensionConstTypePtr arguments[] = {pointer};
  if (interface().types[T::kVariantType].destroy != nullptr) interface().types[T::kVariantType].destroy(value.ptr());
  interface().types[T::kVariantType].copy(value.ptr(), arguments);
  return value;
}

class String : public Builtin<GDEXTENSION_VARIANT_TYPE_STRING> {
 public:
  String() = default;
  explicit String(std::string_view utf8) : Builtin(Uninitialized{}) {
    interface().string_new_with_utf8_chars_and_len(storage_, utf8.data(), static_cast<GDExtensionInt>(utf8.size()));
  }
  std::string utf8() const { return utf8_at(storage_); }
  /** The text of the engine's String at `pointer`. */
  static std::string utf8_at(const void* pointer);
};

class StringName : public Builtin<GDEXTENSION_VARIANT_TYPE_STRING_NAME> {
 public:
  StringName() = default;
  explicit StringName(const char* utf8) : Builtin(Uninitialized{}) {
    interface().string_name_new_with_utf8_chars(storage_, utf8);
  }
  /** The name at `pointer`, as text. */
  static std::string text_at(const void* pointer);
  /** Names are the same when their pointers are. */
  bool is(GDExtensionConstStringNamePtr other) const {
    return *reinterpret_cast<const void* const*>(storage_) == *static_cast<const void* const*>(other);
  }
};

class PackedByteArray : public Builtin<GDEXTENSION_VARIANT_TYPE_PACKED_BYTE_ARRAY> {
 public:
  PackedByteArray() = default;
  explicit PackedByteArray(std::span<const std::byte> bytes);
  /** Borrowed until the array changes. */
  std::span<const std::byte> bytes() const;
};

class PackedStringArray : public Builtin<GDEXTENSION_VARIANT_TYPE_PACKED_STRING_ARRAY> {
 public:
  PackedStringArray() = default;
  explicit PackedStringArray(const std::vector<std::string>& texts);
  std::vector<std::string> texts() const;
};

class Variant;

class Array : public Builtin<GDEXTENSION_VARIANT_TYPE_ARRAY> {
 public:
  int64_t size() const;
  void append(const Variant& value);
  /** `index` in [0, size()). */
  Variant at(int64_t index) const;
};

class Dictionary : public Builtin<GDEXTENSION_VARIANT_TYPE_DICTIONARY> {
 public:
  void set(std::string_view key, const Variant& value);
  void set_at(const Variant& key, const Variant& value);
  /** Those of its keys that are whole numbers, with the numbers that they name. */
  std::vector<std::pair<int64_t, double>> numbers() const;
  /** Null where there is no such key; leaves the dictionary as it is. */
  Variant get(std::string_view key) const;
};

/** A signal of an object; does not keep the object alive. */
class Signal : public Builtin<GDEXTENSION_VARIANT_TYPE_SIGNAL> {
 public:
  Signal() = default;
  Signal(Object object, const StringName& name);
};

/** A method of an object, to be called by the engine; does not keep the object alive. */
class Callable : public Builtin<GDEXTENSION_VARIANT_TYPE_CALLABLE> {
 public:
  Callable() = default;
  Callable(Object object, const StringName& method);
};

class Reference;

/** Any value. One that holds a RefCounted object keeps it alive. */
class Variant {
 public:
  Variant() { interface().variant_new_nil(storage_); }
  Variant(const Variant& other) { interface().variant_new_copy(storage_, other.storage_); }
  Variant& operator=(const Variant& other) {
    if (this != &other) {
      interface().variant_destroy(storage_);
      interface().variant_new_copy(storage_, other.storage_);
    }
    return *this;
  }
  ~Variant() { interface().variant_destroy(storage_); }

  Variant(bool value);                                               // NOLINT: converts like the engine's own
  Variant(int64_t value);                                            // NOLINT
  Variant(int32_t value) : Variant(static_cast<int64_t>(value)) {}   // NOLINT
  Variant(uint32_t value) : Variant(static_cast<int64_t>(value)) {}  // NOLINT
  Variant(double value);                                             // NOLINT
  Variant(float value) : Variant(static_cast<double>(value)) {}      // NOLINT
  Variant(std::string_view utf8) : Variant(String(utf8)) {}          // NOLINT
  Variant(const std::string& utf8) : Variant(String(utf8)) {}        // NOLINT
  Variant(const char* utf8) : Variant(String(utf8)) {}               // NOLINT
  Variant(Object object);                                            // NOLINT
  Variant(const Reference& reference);                               // NOLINT
  template <GDExtensionVariantType kType>
  Variant(const Builtin<kType>& value) {  // NOLINT
    interface().types[kType].to_variant(storage_, const_cast<void*>(value.ptr()));
  }

  GDExtensionVariantType type() const { return interface().variant_get_type(storage_); }
  bool is_null() const { return type() == GDEXTENSION_VARIANT_TYPE_NIL; }

  bool to_bool() const;
  int64_t to_int() const;
  double to_float() const;
  std::string to_text() const;
  /** Null where the object was freed, or the value is none. */
  Object to_object() const;
  /** A copy of the value as type T, which must be what it holds or what it converts to; else T's empty value. */
  template <class T>
  T to() const {
    T value;
    if (!interface().variant_can_convert_strict(type(), T::kVariantType)) return value;
    if (interface().types[T::kVariantType].destroy != nullptr) interface().types[T::kVariantType].destroy(value.ptr());
    interface().types[T::kVariantType].from_variant(value.ptr(), const_cast<std::byte*>(storage_));
    return value;
  }

  /** Calls a method of the value; null where it has none, or refuses the arguments. */
  template <class... Arguments>
  Variant call(const char* method, const Arguments&... arguments) const {
    const Variant values[] = {Variant(arguments)..., Variant()};
    const void* pointers[sizeof...(Arguments) + 1];
    for (size_t i = 0; i < sizeof...(Arguments); i++) pointers[i] = values[i].ptr();
    return call_with(method, pointers, sizeof...(Arguments));
  }
  Variant call_with(const char* method, const void* const* arguments, size_t count) const;

  void* ptr() { return storage_; }
  const void* ptr() const { return storage_; }

 private:
  // 24 bytes, or 40 in engines with double precision.
  alignas(8) std::byte storage_[40];
};

/** A RefCounted object of the engine, kept alive; or none. */
class Reference {
 public:
  Reference() = default;
  explicit Reference(const Variant& value) : value_(value) {}

  Object object() const { return value_.to_object(); }
  const Variant& variant() const { return value_; }
  explicit operator bool() const { return static_cast<bool>(object()); }

 private:
  Variant value_;
};

inline Variant::Variant(const Reference& reference) : Variant(reference.variant()) {}

/** A Variant of the engine's at `pointer`, as a value of ours. */
Variant variant_at(const void* pointer);

/** The object of this id, or none where it was freed. */
inline Object object_of(ObjectId id) {
  return Object{id == 0 ? nullptr : interface().object_get_instance_from_id(id)};
}
inline ObjectId id_of(Object object) {
  return object ? interface().object_get_instance_id(object.pointer) : 0;
}

/** One of the engine's singletons, "Performance"; none where this build has it not. */
Object singleton(const char* name);

}  // namespace banter::godot
