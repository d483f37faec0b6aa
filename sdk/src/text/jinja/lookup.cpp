// object.name, object[key] and slices, as Jinja2's environment resolves them.
#include <algorithm>

#include "text/jinja/operators.h"

namespace banter::text::jinja {

namespace {

bool missing(Runtime& rt, const Value& object, const Value& key, Value* out) {
  TextBuilder why(rt.budget);
  const std::string type = describe_type(object);
  if (key.is(Kind::kString)) {
    why.append("'" + type + "' has no attribute ", false);
  } else {
    why.append(type + " has no element ", false);
  }
  if (!append_repr(rt, key, why)) return false;
  *out = Value();
  out->text = why.finish();
  return rt.check();
}

/** Position of an element by Python's index rules, or false. */
bool resolve_index(int64_t index, size_t size, size_t* out) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return false;
  *out = static_cast<size_t>(index);
  return true;
}

/** object[key] proper; `*found` false where Python raises LookupError or TypeError. */
bool subscript(Runtime& rt, const Value& object, const Value& key, Value* out, bool* found) {
  *found = false;
  size_t at = 0;
  switch (object.kind) {
    case Kind::kString: {
      if (!key.is_integral() || !resolve_index(key.as_int(), object.text->length(), &at)) return true;
      size_t begin = object.text->offset_of(at);
      if (!object.text->ascii() && !rt.charge(begin / 16)) return false;
      size_t end = begin;
      next_code_point(object.bytes(), &end);
      *out = Value::of_text(slice(rt.budget, object.text, begin, end));
      *found = true;
      return rt.check();
    }
    case Kind::kList:
    case Kind::kTuple: {
      const auto& items = object.as<ListObject>()->items;
      if (!key.is_integral() || !resolve_index(key.as_int(), items.size(), &at)) return true;
      *out = items[at];
      *found = true;
      return true;
    }
    case Kind::kRange: {
      const auto* range = object.as<RangeObject>();
      if (!key.is_integral() || !resolve_index(key.as_int(), range->size(), &at)) return true;
      *out = Value::of_int(range->at(at), range->trusted);
      *found = true;
      return true;
    }
    case Kind::kDict: {
      if (key.is(Kind::kList) || key.is(Kind::kDict) || key.is(Kind::kDictView)) return true;
      Value* value = nullptr;
      if (!object.as<DictObject>()->find(rt, key, &value)) return false;
      if (value != nullptr) *out = *value;
      *found = value != nullptr;
      return true;
    }
    default:
      return true;
  }
}

/** Attributes proper (not items): methods, fields of namespaces and of groups. */
bool own_attribute(Runtime& rt, const Value& object, std::string_view name, Value* out, bool* found) {
  *found = false;
  if (object.is(Kind::kNamespace)) {
    const Value* value = object.as<NamespaceObject>()->attributes.find_text(name);
    if (value != nullptr) *out = *value;
    *found = value != nullptr;
    return true;
  }
  if (object.is(Kind::kTuple) && object.as<ListObject>()->group && (name == "grouper" || name == "list")) {
    *out = object.as<ListObject>()->items[name == "list" ? 1 : 0];
    *found = true;
    return true;
  }
  if (object.is(Kind::kCycler) && name == "current") {
    const auto* cycler = object.as<CyclerObject>();
    *out = cycler->items[cycler->position];
    *found = true;
    return true;
  }
  const NamedFunction* method = find_method(object, name);
  if (method == nullptr) return true;
  auto* bound = rt.make<MethodObject>();
  bound->self = object;
  bound->method = method;
  *out = Value::of_object(Kind::kMethod, bound);
  *found = true;
  return rt.check();
}

/** Bounds of a slice as Python's slice.indices() gives them. */
struct Slice {
  int64_t start, stop, step;
  size_t count;
};

bool slice_bound(Runtime& rt, const Value& bound, int64_t missing_value, int64_t low, int64_t high, int64_t size,
                 int64_t* out) {
  if (bound.is(Kind::kNone)) {
    *out = missing_value;
    return true;
  }
  if (!bound.is_integral()) {
    return rt.fail("slice indices must be integers or None or have an __index__ method");
  }
  int64_t value = bound.as_int();
  if (value < 0) value += size;
  *out = std::clamp(value, low, high);
  return true;
}

bool resolve_slice(Runtime& rt, size_t length, const Value& start, const Value& stop, const Value& step, Slice* out) {
  const auto size = static_cast<int64_t>(length);
  if (!step.is(Kind::kNone) && !step.is_integral()) {
    return rt.fail("slice indices must be integers or None or have an __index__ method");
  }
  int64_t by = step.is(Kind::kNone) ? 1 : step.as_int();
  if (by == 0) return rt.fail("slice step cannot be zero");
  by = std::clamp<int64_t>(by, -size - 1, size + 1);
  const bool forward = by > 0;
  const int64_t low = forward ? 0 : -1, high = forward ? size : size - 1;
  int64_t first = 0, last = 0;
  if (!slice_bound(rt, start, forward ? low : high, low, high, size, &first) ||
      !slice_bound(rt, stop, forward ? high : low, low, high, size, &last)) {
    return false;
  }
  const int64_t span = forward ? last - first : first - last;
  *out = {first, last, by, span > 0 ? static_cast<size_t>((span - 1) / (forward ? by : -by) + 1) : 0};
  return true;
}

bool slice_text(Runtime& rt, const Value& object, const Slice& range, Value* out) {
  const TextPtr& text = object.text;
  if (range.step == 1 || range.count == 0) {
    const size_t first = range.count == 0 ? 0 : static_cast<size_t>(range.start);
    const size_t begin = text->offset_of(first);
    const size_t end = range.count == 0 ? begin : text->offset_of(first + range.count);
    if (!text->ascii() && !rt.charge(end / 16)) return false;
    if (range.count == 0) {
      TextBuilder empty(rt.budget);
      return rt.finish(empty, out, text->markup());
    }
    *out = Value::of_text(slice(rt.budget, text, begin, end));
    return rt.check();
  }
  std::vector<size_t> offsets;  // of every code point: any order of access is then cheap
  if (!rt.charge(text->length()) || !rt.budget.fits(text->length() * sizeof(size_t))) return rt.check();
  for (size_t i = 0; i < text->size();) {
    offsets.push_back(i);
    next_code_point(text->bytes(), &i);
  }
  offsets.push_back(text->size());
  TextBuilder builder(rt.budget);
  int64_t at = range.start;
  for (size_t i = 0; i < range.count && rt.budget.ok(); ++i, at += range.step) {
    builder.append(*text, offsets[static_cast<size_t>(at)], offsets[static_cast<size_t>(at) + 1]);
  }
  return rt.finish(builder, out, text->markup());
}

bool slice_list(Runtime& rt, const Value& object, const Slice& range, Value* out) {
  const auto* list = object.as<ListObject>();
  if (!rt.charge(range.count) || !rt.budget.fits(range.count * sizeof(Value))) return rt.check();
  std::vector<Value> items;
  items.reserve(range.count);
  int64_t at = range.start;
  for (size_t i = 0; i < range.count; ++i, at += range.step) items.push_back(list->items[static_cast<size_t>(at)]);
  *out = rt.make_list(std::move(items), object.kind);
  out->as<ListObject>()->trusted = list->trusted;
  return rt.check();
}

}  // namespace

const NamedFunction* find_method(const Value& value, std::string_view name) {
  return value.is(Kind::kString) ? find_text_method(name) : find_container_method(value.kind, name);
}

bool get_item(Runtime& rt, const Value& object, const Value& key, Value* out) {
  if (object.is(Kind::kUndefined)) return rt.fail_undefined(object);
  bool found = false;
  if (!subscript(rt, object, key, out, &found)) return false;
  if (!found && key.is(Kind::kString) && !own_attribute(rt, object, key.bytes(), out, &found)) return false;
  return found || missing(rt, object, key, out);
}

bool get_attribute(Runtime& rt, const Value& object, std::string_view name, Value* out) {
  if (object.is(Kind::kUndefined)) return rt.fail_undefined(object);
  bool found = false;
  if (!own_attribute(rt, object, name, out, &found)) return false;
  if (found) return true;
  if (object.is(Kind::kDict)) {
    if (const Value* value = object.as<DictObject>()->find_text(name)) {
      *out = *value;
      return rt.charge(1);
    }
  }
  return missing(rt, object, rt.text(name), out);
}

bool get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step, Value* out) {
  size_t length = 0;
  bool known = false;
  if (object.is(Kind::kUndefined)) return rt.fail_undefined(object);
  if (!length_of(rt, object, &length, &known)) return false;
  const bool sliceable =
      object.is(Kind::kString) || object.is(Kind::kList) || object.is(Kind::kTuple) || object.is(Kind::kRange);
  if (!sliceable) {
    return rt.fail(std::string("'") + type_name(object) + "' object cannot be sliced");
  }
  Slice range{};
  if (!resolve_slice(rt, length, start, stop, step, &range)) return false;
  if (object.is(Kind::kString)) return slice_text(rt, object, range, out);
  if (!object.is(Kind::kRange)) return slice_list(rt, object, range, out);
  const auto* source = object.as<RangeObject>();
  auto* result = rt.make<RangeObject>();
  result->start = source->start + range.start * source->step;
  result->step = source->step * range.step;
  result->stop = source->start + range.stop * source->step;
  result->trusted = source->trusted;
  *out = Value::of_object(Kind::kRange, result);
  return rt.check();
}

}  // namespace banter::text::jinja
