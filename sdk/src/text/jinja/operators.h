// Operators of the expression language with Python's semantics.
#pragma once

#include "text/jinja/runtime.h"

namespace banter::text::jinja {

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

/** a op b for the arithmetic operators; strings, lists and % formatting included. */
bool arithmetic(Runtime& rt, Operator op, const Value& a, const Value& b, Value* out);
bool negate(Runtime& rt, const Value& a, bool minus, Value* out);
/** a op b for comparisons and membership. */
bool compare(Runtime& rt, Operator op, const Value& a, const Value& b, bool* out);
bool contains(Runtime& rt, const Value& container, const Value& item, bool* out);

/** object[key] and object.name as Jinja2 looks them up; absent ones are undefined, not errors. */
bool get_item(Runtime& rt, const Value& object, const Value& key, Value* out);
bool get_attribute(Runtime& rt, const Value& object, std::string_view name, Value* out);
/** object[start:stop:step]; absent bounds are none. */
bool get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step, Value* out);

/** The method of a value's type, or null. */
const NamedFunction* find_method(const Value& value, std::string_view name);
const NamedFunction* find_text_method(std::string_view name);
const NamedFunction* find_container_method(Kind kind, std::string_view name);

/** `format % values` (printf style) and format.format(*args, **kwargs). */
bool format_percent(Runtime& rt, const TextPtr& format, const Value& values, Value* out);
bool format_braces(Runtime& rt, const TextPtr& format, const Arguments& args, Value* out);
/** `text` with & < > ' " replaced by character references. */
void append_escaped(const Text& text, TextBuilder& out);

}  // namespace banter::text::jinja
