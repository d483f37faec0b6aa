#include "binding/variant.h"

#include <cstring>

namespace banter::godot {
namespace {

// Signatures of built-in methods, as extension_api.json gives them; unchanged since Godot 4.0.
constexpr int64_t kSizeHash = 3173160232, kResizeHash = 848867239;

int64_t size_of(GDExtensionVariantType type, const void* value) {
  const StringName name("size");
  int64_t size = 0;
  interface().variant_get_ptr_builtin_method(type, name.ptr(), kSizeHash)(const_cast<void*>(value), nullptr, &size, 0);
  return size;
}

void resize(GDExtensionVariantType type, void* value, int64_t size) {
  const StringName name("resize");
  int64_t error = 0;
  const GDExtensionConstTypePtr arguments[] = {&size};
  interface().variant_get_ptr_builtin_method(type, name.ptr(), kResizeHash)(value, arguments, &error, 1);
}

}  // namespace

std::string String::utf8_at(const void* pointer) {
  const GDExtensionInt length = interface().string_to_utf8_chars(pointer, nullptr, 0);
  std::string text(static_cast<size_t>(length > 0 ? length : 0), '\0');
  if (!text.empty()) interface().string_to_utf8_chars(pointer, text.data(), length);
  return text;
}

std::string StringName::text_at(const void* pointer) {
  constexpr int kFromStringName = 2;  // among String's constructors
  String text;
  interface().types[GDEXTENSION_VARIANT_TYPE_STRING].destroy(text.ptr());
  const GDExtensionConstTypePtr arguments[] = {pointer};
  interface().variant_get_ptr_constructor(GDEXTENSION_VARIANT_TYPE_STRING, kFromStringName)(text.ptr(), arguments);
  return text.utf8();
}

PackedByteArray::PackedByteArray(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  resize(kVariantType, ptr(), static_cast<int64_t>(bytes.size()));
  if (size_of(kVariantType, ptr()) != static_cast<int64_t>(bytes.size())) return;
  std::memcpy(interface().packed_byte_array_operator_index(ptr(), 0), bytes.data(), bytes.size());
}

std::span<const std::byte> PackedByteArray::bytes() const {
  const int64_t size = size_of(kVariantType, ptr());
  if (size <= 0) return {};
  const uint8_t* const first = interface().packed_byte_array_operator_index_const(ptr(), 0);
  return {reinterpret_cast<const std::byte*>(first), static_cast<size_t>(size)};
}

PackedStringArray::PackedStringArray(const std::vector<std::string>& texts) {
  resize(kVariantType, ptr(), static_cast<int64_t>(texts.size()));
  for (size_t i = 0; i < texts.size(); i++) {
    void* const slot = interface().packed_string_array_operator_index(ptr(), static_cast<int64_t>(i));
    interface().types[GDEXTENSION_VARIANT_TYPE_STRING].destroy(slot);
    interface().string_new_with_utf8_chars_and_len(slot, texts[i].data(), static_cast<int64_t>(texts[i].size()));
  }
}

std::vector<std::string> PackedStringArray::texts() const {
  std::vector<std::string> texts;
  const int64_t size = size_of(kVariantType, ptr());
  for (int64_t i = 0; i < size; i++) {
    texts.push_back(String::utf8_at(interface().packed_string_array_operator_index_const(ptr(), i)));
  }
  return texts;
}

int64_t Array::size() const {
  return size_of(kVariantType, ptr());
}

void Array::append(const Variant& value) {
  static_cast<void>(Variant(*this).call("append", value));  // arrays are shared by reference
}

Variant Array::at(int64_t index) const {
  return variant_at(interface().array_operator_index(const_cast<void*>(ptr()), index));
}

void Dictionary::set(std::string_view key, const Variant& value) {
  set_at(Variant(key), value);
}

void Dictionary::set_at(const Variant& key, const Variant& value) {
  void* const slot = interface().dictionary_operator_index(ptr(), key.ptr());
  interface().variant_destroy(slot);
  interface().variant_new_copy(slot, value.ptr());
}

std::vector<std::pair<int64_t, double>> Dictionary::numbers() const {
  std::vector<std::pair<int64_t, double>> out;
  const Array keys = Variant(*this).call("keys").to<Array>();
  for (int64_t i = 0; i < keys.size(); i++) {
    const Variant key = keys.at(i);
    if (key.type() == GDEXTENSION_VARIANT_TYPE_INT)
      out.emplace_back(key.to_int(), Variant(*this).call("get", key).to_float());
  }
  return out;
}

Variant Dictionary::get(std::string_view key) const {
  return Variant(*this).call("get", key);
}

Signal::Signal(Object object, const StringName& name) : Builtin(Uninitialized{}) {
  const GDExtensionConstTypePtr arguments[] = {&object.pointer, name.ptr()};
  interface().variant_get_ptr_constructor(kVariantType, 2)(storage_, arguments);
}

Callable::Callable(Object object, const StringName& method) : Builtin(Uninitialized{}) {
  const GDExtensionConstTypePtr arguments[] = {&object.pointer, method.ptr()};
  interface().variant_get_ptr_constructor(kVariantType, 2)(storage_, arguments);
}

Variant::Variant(bool value) {
  GDExtensionBool stored = value ? 1 : 0;
  interface().types[GDEXTENSION_VARIANT_TYPE_BOOL].to_variant(storage_, &stored);
}

Variant::Variant(int64_t value) {
  interface().types[GDEXTENSION_VARIANT_TYPE_INT].to_variant(storage_, &value);
}

Variant::Variant(double value) {
  interface().types[GDEXTENSION_VARIANT_TYPE_FLOAT].to_variant(storage_, &value);
}

Variant::Variant(Object object) {
  interface().types[GDEXTENSION_VARIANT_TYPE_OBJECT].to_variant(storage_, &object.pointer);
}

bool Variant::to_bool() const {
  GDExtensionBool value = 0;
  if (interface().variant_can_convert_strict(type(), GDEXTENSION_VARIANT_TYPE_BOOL)) {
    interface().types[GDEXTENSION_VARIANT_TYPE_BOOL].from_variant(&value, const_cast<std::byte*>(storage_));
  }
  return value != 0;
}

int64_t Variant::to_int() const {
  int64_t value = 0;
  if (interface().variant_can_convert_strict(type(), GDEXTENSION_VARIANT_TYPE_INT)) {
    interface().types[GDEXTENSION_VARIANT_TYPE_INT].from_variant(&value, const_cast<std::byte*>(storage_));
  }
  return value;
}

double Variant::to_float() const {
  double value = 0;
  if (interface().variant_can_convert_strict(type(), GDEXTENSION_VARIANT_TYPE_FLOAT)) {
    interface().types[GDEXTENSION_VARIANT_TYPE_FLOAT].from_variant(&value, const_cast<std::byte*>(storage_));
  }
  return value;
}

std::string Variant::to_text() const {
  return to<String>().utf8();
}

Object Variant::to_object() const {
  if (type() != GDEXTENSION_VARIANT_TYPE_OBJECT) return {};
  // The pointer inside may dangle; the id that goes with it does not.
  const Variant id = call("get_instance_id");
  return object_of(static_cast<ObjectId>(id.to_int()));
}

Variant Variant::call_with(const char* method, const void* const* arguments, size_t count) const {
  const StringName name(method);
  Variant result;
  GDExtensionCallError error{};
  interface().variant_destroy(result.ptr());
  interface().variant_call(const_cast<std::byte*>(storage_), name.ptr(), arguments, static_cast<GDExtensionInt>(count),
                           result.ptr(), &error);
  return result;
}

Variant variant_at(const void* pointer) {
  Variant value;
  interface().variant_destroy(value.ptr());
  interface().variant_new_copy(value.ptr(), pointer);
  return value;
}

Object singleton(const char* name) {
  const StringName string_name(name);
  return Object{interface().global_get_singleton(string_name.ptr())};
}

}  // namespace banter::godot
