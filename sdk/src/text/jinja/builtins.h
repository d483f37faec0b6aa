// Helpers that filters, tests, functions and methods share.
#pragma once

#include <initializer_list>
#include <string_view>

#include "text/jinja/operators.h"

namespace banter::text::jinja {

/** Arguments bound to parameter names; absent ones are null. */
class Bound {
 public:
  static constexpr size_t kMaxParameters = 6;
  /** Fails on too many, unknown, doubled or missing arguments. @param required  how many from the left must be given */
  bool bind(Runtime& rt, std::string_view callee, const Arguments& args, std::initializer_list<std::string_view> names,
            size_t required = 0);
  const Value* operator[](size_t i) const { return values_[i]; }
  bool has(size_t i) const { return values_[i] != nullptr; }
  /** Given and not none. */
  bool some(size_t i) const { return has(i) && !values_[i]->is(Kind::kNone); }

  /** Typed access: false (and an error) where the value has another type; `out` unchanged where it is absent. */
  bool integer(Runtime& rt, size_t i, int64_t* out) const;
  bool text(Runtime& rt, size_t i, TextPtr* out) const;
  bool flag(Runtime& rt, size_t i, bool* out) const;

 private:
  std::string_view callee_;
  const Value* values_[kMaxParameters] = {};
};

// Text operations (text_ops.cpp). Every result byte keeps the trust of its source.
struct StripSides {
  bool left = true, right = true;
};
/** Without white space, or without the code points of `chars` where given, at its ends. */
TextPtr strip(Runtime& rt, const TextPtr& text, const Text* chars, StripSides sides);
TextPtr replace(Runtime& rt, const Text& text, const Text& old, const Text& with, int64_t count);
/** str.split / str.rsplit. `separator` null: runs of white space. limit < 0: no limit. */
bool split(Runtime& rt, const TextPtr& text, const Text* separator, int64_t limit, bool from_right,
           std::vector<Value>* out);
bool split_lines(Runtime& rt, const TextPtr& text, bool keep_ends, std::vector<Value>* out);
bool capitalize(Runtime& rt, const Text& text, Value* out);
/** Fills to `width` code points; `left` and `right` are which sides get fill. */
bool pad(Runtime& rt, const TextPtr& text, int64_t width, const Text* fill, bool left, bool right, Value* out);

// JSON (json.cpp).
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  TextPtr indent;  // one level
  TextPtr item_separator, key_separator;
};
bool append_json(Runtime& rt, const Value& value, const JsonStyle& style, TextBuilder& out, int depth = 0);
/** The tojson filter. */
bool filter_tojson(Runtime& rt, const Value& self, const Arguments& args, Value* out);

/** strftime of `unix_seconds` as UTC in the C locale (time.cpp). */
std::string format_time(std::string_view format, int64_t unix_seconds);

/** Formats one value by a format() specification such as ">8.3f" (format_spec.cpp). */
bool format_with_spec(Runtime& rt, const Value& value, std::string_view spec, bool spec_trusted, TextBuilder& out);
/** A number with `precision` digits in the style of printf's %e, %f or %g. */
std::string format_double(double value, char style, int precision, bool alternate);
/** Digits of a magnitude in base 2, 8, 10 or 16. */
std::string format_digits(uint64_t magnitude, int base, bool upper);

/** float() of Python for text without white space around it; too large is infinite, too small zero. */
bool parse_float(std::string_view text, double* out);

/** Follows "a.b.0" paths as the attribute arguments of filters do. */
class AttributePath {
 public:
  /** @param attribute  a text, an integer, or none for the element itself */
  bool parse(Runtime& rt, const Value& attribute);
  bool get(Runtime& rt, const Value& element, Value* out) const;
  const Value* fallback = nullptr;  // instead of undefined parts

 private:
  std::vector<Value> parts_;
};

/** Lower-cased texts, other values as they are: the key of case-insensitive sorting. */
bool ignore_case(Runtime& rt, const Value& value, Value* out);
/** Stable sort of `keys`' indices. */
bool sort_indices(Runtime& rt, const std::vector<Value>& keys, bool reverse, std::vector<size_t>* out);

// Tables of the parts of the library.
/** One part of the library; a part is searched linearly, at parse time only. */
struct FunctionTable {
  const NamedFunction* functions;
  size_t count;
};
const NamedFunction* find_in(const FunctionTable& table, std::string_view name);
FunctionTable text_filters();
FunctionTable sequence_filters();
FunctionTable selection_filters();
FunctionTable case_methods();

}  // namespace banter::text::jinja
