// Member functions as methods that Godot can call.
#pragma once

#include <tuple>

#include "binding/object.h"
#include "binding/traits.h"

namespace banter::godot {

/** A method that a class registered. Lives until the extension is closed. */
class Method {
 public:
  virtual ~Method() = default;
  virtual void call(void* instance, const GDExtensionConstVariantPtr* arguments, GDExtensionInt count, Variant* result,
                    GDExtensionCallError* error) const = 0;
  virtual void call_typed(void* instance, const GDExtensionConstTypePtr* arguments, void* result) const = 0;

  GDExtensionVariantType result_type = GDEXTENSION_VARIANT_TYPE_NIL;
  bool has_result = false, is_const = false;
  std::vector<GDExtensionVariantType> argument_types;
  std::vector<Variant> defaults;  // of the last arguments
};

template <class Function>
struct Signature;
template <class Class_, class Result_, class... Arguments_>
struct Signature<Result_ (Class_::*)(Arguments_...)> {
  using Class = Class_;
  using Result = Plain<Result_>;
  using Arguments = std::tuple<Plain<Arguments_>...>;
  static constexpr bool kConst = false;
};
template <class Class_, class Result_, class... Arguments_>
struct Signature<Result_ (Class_::*)(Arguments_...) const> : Signature<Result_ (Class_::*)(Arguments_...)> {
  static constexpr bool kConst = true;
};

/** The method made of one member function. */
template <class Function>
class MemberMethod final : public Method {
  using S = Signature<Function>;
  using Class = typename S::Class;
  using Result = typename S::Result;
  using Arguments = typename S::Arguments;
  static constexpr size_t kCount = std::tuple_size_v<Arguments>;
  using Indices = std::make_index_sequence<kCount>;

 public:
  explicit MemberMethod(Function function) : function_(function) {
    is_const = S::kConst;
    has_result = !std::is_void_v<Result>;
    if constexpr (!std::is_void_v<Result>) result_type = Traits<Result>::kType;
    describe(Indices{});
  }

  void call(void* instance, const GDExtensionConstVariantPtr* arguments, GDExtensionInt count, Variant* result,
            GDExtensionCallError* error) const override {
    if (!check(arguments, count, error)) return;
    const Variant returned =
        call_dynamic(static_cast<Class*>(static_cast<Instance*>(instance)), arguments, count, Indices{});
    *result = returned;
  }

  void call_typed(void* instance, const GDExtensionConstTypePtr* arguments, void* result) const override {
    call_raw(static_cast<Class*>(static_cast<Instance*>(instance)), arguments, result, Indices{});
  }

 private:
  template <size_t... kIndex>
  void describe(std::index_sequence<kIndex...>) {
    argument_types = {Traits<std::tuple_element_t<kIndex, Arguments>>::kType...};
  }

  bool check(const GDExtensionConstVariantPtr* arguments, GDExtensionInt count, GDExtensionCallError* error) const {
    error->error = GDEXTENSION_CALL_OK;
    const auto most = static_cast<GDExtensionInt>(kCount);
    const auto least = most - static_cast<GDExtensionInt>(defaults.size());
    if (count > most || count < least) {
      error->error =
          count > most ? GDEXTENSION_CALL_ERROR_TOO_MANY_ARGUMENTS : GDEXTENSION_CALL_ERROR_TOO_FEW_ARGUMENTS;
      error->expected = static_cast<int32_t>(count > most ? most : least);
      return false;
    }
    for (GDExtensionInt i = 0; i < count; i++) {
      const GDExtensionVariantType wanted = argument_types[static_cast<size_t>(i)];
      if (wanted == GDEXTENSION_VARIANT_TYPE_NIL) continue;  // anything
      if (interface().variant_can_convert_strict(interface().variant_get_type(arguments[i]), wanted)) continue;
      error->error = GDEXTENSION_CALL_ERROR_INVALID_ARGUMENT;
      error->argument = static_cast<int32_t>(i);
      error->expected = wanted;
      return false;
    }
    return true;
  }

  template <size_t kIndex>
  auto argument(const GDExtensionConstVariantPtr* arguments, GDExtensionInt count) const {
    using T = std::tuple_element_t<kIndex, Arguments>;
    if (static_cast<GDExtensionInt>(kIndex) < count) return Traits<T>::from(variant_at(arguments[kIndex]));
    return Traits<T>::from(defaults[kIndex - (kCount - defaults.size())]);
  }

  template <size_t... kIndex>
  Variant call_dynamic(Class* instance, [[maybe_unused]] const GDExtensionConstVariantPtr* arguments,
                       [[maybe_unused]] GDExtensionInt count, std::index_sequence<kIndex...>) const {
    if constexpr (std::is_void_v<Result>) {
      (instance->*function_)(argument<kIndex>(arguments, count)...);
      return {};
    } else {
      return Variant((instance->*function_)(argument<kIndex>(arguments, count)...));
    }
  }

  template <size_t... kIndex>
  void call_raw(Class* instance, [[maybe_unused]] const GDExtensionConstTypePtr* arguments,
                [[maybe_unused]] void* result, std::index_sequence<kIndex...>) const {
    if constexpr (std::is_void_v<Result>) {
      (instance->*function_)(Traits<std::tuple_element_t<kIndex, Arguments>>::read(arguments[kIndex])...);
    } else {
      Traits<Result>::write(
          result, (instance->*function_)(Traits<std::tuple_element_t<kIndex, Arguments>>::read(arguments[kIndex])...));
    }
  }

  Function function_;
};

}  // namespace banter::godot
