#include "text/jinja/builtins.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "text/jinja/ast.h"

namespace banter::text::jinja {

bool Bound::bind(Runtime& rt, std::string_view callee, const Arguments& args,
                 std::initializer_list<std::string_view> names, size_t required) {
  callee_ = callee;
  const auto name = std::string(callee);
  if (args.positional.size() > names.size()) {
    return rt.fail(name + "() takes at most " + std::to_string(names.size()) + " arguments, got " +
                   std::to_string(args.positional.size()));
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [keyword, value] : args.keyword) {
    const auto* at = std::find(names.begin(), names.end(), keyword);
    if (at == names.end()) return rt.fail(name + "() got an unexpected keyword argument '" + keyword + "'");
    const Value*& slot = values_[at - names.begin()];
    if (slot != nullptr) return rt.fail(name + "() got multiple values for argument '" + keyword + "'");
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) {
      return rt.fail(name + "() is missing the argument '" + std::string(names.begin()[i]) + "'");
    }
  }
  return true;
}

bool Bound::integer(Runtime& rt, size_t i, int64_t* out) const {
  if (values_[i] == nullptr) return true;
  if (values_[i]->is(Kind::kUndefined)) return rt.fail_undefined(*values_[i]);
  if (!values_[i]->is_integral()) {
    return rt.fail(std::string(callee_) + "() needs an integer, not " + type_name(*values_[i]));
  }
  *out = values_[i]->as_int();
  return true;
}

bool Bound::text(Runtime& rt, size_t i, TextPtr* out) const {
  if (values_[i] == nullptr) return true;
  if (values_[i]->is(Kind::kUndefined)) return rt.fail_undefined(*values_[i]);
  if (!values_[i]->is(Kind::kString)) {
    return rt.fail(std::string(callee_) + "() needs a string, not " + type_name(*values_[i]));
  }
  *out = values_[i]->text;
  return true;
}

bool Bound::flag(Runtime& rt, size_t i, bool* out) const {
  if (values_[i] != nullptr) *out = truthy(rt, *values_[i]);
  return true;
}

bool parse_float(std::string_view text, double* out) {
  std::string clean;
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  if (text.empty() || text[0] == '+') return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      clean.push_back(text[i]);
    } else if (i == 0 || i + 1 == text.size() || text[i - 1] < '0' || text[i - 1] > '9' || text[i + 1] < '0' ||
               text[i + 1] > '9') {
      return false;
    }
  }
  const char* end = clean.data() + clean.size();
  const auto result = std::from_chars(clean.data(), end, *out);
  if (result.ptr != end) return false;
  if (result.ec == std::errc::result_out_of_range) {  // too large is infinite, too small is zero
    const size_t e = clean.find_first_of("eE");
    const bool tiny = e != std::string::npos && e + 1 < clean.size() && clean[e + 1] == '-';
    *out = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    if (clean[0] == '-') *out = -*out;
    return true;
  }
  return result.ec == std::errc() && clean.find('(') == std::string::npos;
}

bool AttributePath::parse(Runtime& rt, const Value& attribute) {
  parts_.clear();
  if (attribute.is(Kind::kNone)) return true;
  if (!attribute.is(Kind::kString)) {
    parts_.push_back(attribute);
    return true;
  }
  const std::string_view path = attribute.bytes();
  for (size_t begin = 0; begin <= path.size();) {
    const size_t dot = std::min(path.find('.', begin), path.size());
    const std::string_view part = path.substr(begin, dot - begin);
    const bool digits = !part.empty() && part.size() < 18 &&
                        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    parts_.push_back(digits ? Value::of_int(std::stoll(std::string(part)))
                            : Value::of_text(slice(rt.budget, attribute.text, begin, dot)));
    if (!rt.charge(1)) return false;
    begin = dot + 1;
  }
  return true;
}

bool AttributePath::get(Runtime& rt, const Value& element, Value* out) const {
  *out = element;
  for (const Value& part : parts_) {
    Value next;
    if (!get_item(rt, *out, part, &next)) return false;
    *out = next.is(Kind::kUndefined) && fallback != nullptr ? *fallback : std::move(next);
  }
  return true;
}

bool ignore_case(Runtime& rt, const Value& value, Value* out) {
  *out = value;
  if (!value.is(Kind::kString)) return true;
  TextBuilder builder(rt.budget);
  append_lower(builder, *value.text, 0, value.text->size());
  return rt.finish(builder, out);
}

bool sort_indices(Runtime& rt, const std::vector<Value>& keys, bool reverse, std::vector<size_t>* out) {
  std::vector<size_t>& indices = *out;
  indices.resize(keys.size());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = reverse ? keys.size() - 1 - i : i;
  // A merge sort of our own: the order may fail half-way, which std::stable_sort must not see.
  std::vector<size_t> merged(indices.size());
  for (size_t width = 1; width < indices.size(); width *= 2) {
    for (size_t left = 0; left < indices.size(); left += 2 * width) {
      const size_t middle = std::min(left + width, indices.size()), right = std::min(left + 2 * width, indices.size());
      size_t a = left, b = middle;
      for (size_t i = left; i < right; ++i) {
        bool take_left = b >= right;
        if (a < middle && b < right) {
          int sign = 0;
          if (!order(rt, keys[indices[b]], keys[indices[a]], "<", &sign)) return false;
          take_left = sign != -1;
        }
        merged[i] = take_left ? indices[a++] : indices[b++];
      }
    }
    indices.swap(merged);
  }
  if (reverse) std::reverse(indices.begin(), indices.end());
  return true;
}

const NamedFunction* find_in(const FunctionTable& table, std::string_view name) {
  for (size_t i = 0; i < table.count; ++i) {
    if (table.functions[i].name == name) return &table.functions[i];
  }
  return nullptr;
}

const NamedFunction* find_filter(std::string_view name) {
  for (const FunctionTable& table : {text_filters(), sequence_filters(), selection_filters()}) {
    if (const NamedFunction* found = find_in(table, name)) return found;
  }
  return nullptr;
}

}  // namespace banter::text::jinja
