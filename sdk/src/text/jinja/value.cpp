#include "text/jinja/value.h"

#include <cmath>
#include <functional>

#include "text/jinja/runtime.h"

namespace banter::text::jinja {

namespace {

constexpr size_t kFewEntries = 8;  // up to here a dict is searched without an index

bool too_deep(Runtime& rt) {
  return rt.fail("values are nested too deeply");
}

size_t mix(size_t a, size_t b) {
  return a ^ (b + 0x9E3779B97F4A7C15ull + (a << 6) + (a >> 2));
}

/** The int64 that equals `d`, if there is one. */
bool exact_integer(double d, int64_t* out) {
  if (!(d >= -9223372036854775808.0 && d < 9223372036854775808.0) || std::trunc(d) != d) return false;
  *out = static_cast<int64_t>(d);
  return true;
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  if (a.is(Kind::kFloat) && b.is(Kind::kFloat)) return a.number == b.number;
  int64_t integer = 0;
  return exact_integer(a.is(Kind::kFloat) ? a.number : b.number, &integer) &&
         integer == (a.is(Kind::kFloat) ? b : a).as_int();
}

bool equal_items(Runtime& rt, const std::vector<Value>& a, const std::vector<Value>& b, bool* out, int depth) {
  *out = a.size() == b.size();
  for (size_t i = 0; *out && i < a.size() && i < b.size(); ++i) {
    if (!equal(rt, a[i], b[i], out, depth + 1)) return false;
  }
  return true;
}

bool equal_dicts(Runtime& rt, DictObject& a, DictObject& b, bool* out, int depth) {
  *out = a.entries.size() == b.entries.size();
  for (size_t i = 0; *out && i < a.entries.size(); ++i) {
    Value* other = nullptr;
    if (!b.find(rt, a.entries[i].key, &other)) return false;
    *out = other != nullptr;
    if (*out && !equal(rt, a.entries[i].value, *other, out, depth + 1)) return false;
  }
  return true;
}

}  // namespace

const char* type_name(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return "generator";
    case Kind::kDictView:
      return value.as<DictViewObject>()->what == DictViewObject::What::kKeys     ? "dict_keys"
             : value.as<DictViewObject>()->what == DictViewObject::What::kValues ? "dict_values"
                                                                                 : "dict_items";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
  }
  return "object";
}

std::string describe_type(const Value& value) {
  switch (value.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kNamespace:
    case Kind::kCycler:
    case Kind::kJoiner:
      return std::string("jinja2.utils.") + type_name(value) + " object";
    case Kind::kLoop:
    case Kind::kMacro:
      return std::string("jinja2.runtime.") + type_name(value) + " object";
    default:
      return std::string(type_name(value)) + " object";
  }
}

size_t RangeObject::size() const {
  if (step > 0) return start < stop ? static_cast<size_t>((stop - start - 1) / step + 1) : 0;
  return start > stop ? static_cast<size_t>((start - stop - 1) / -step + 1) : 0;
}

size_t DictObject::probe(size_t hash) const {
  const size_t mask = slots_.size() - 1;
  return (hash ^ (hash >> 32)) & mask;
}

void DictObject::rebuild(size_t slots) {
  slots_.assign(slots, 0);
  for (size_t i = 0; i < entries.size(); ++i) {
    size_t slot = probe(entries[i].hash);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots - 1);
    slots_[slot] = static_cast<uint32_t>(i + 1);
  }
}

bool DictObject::index_of(Runtime& rt, const Value& key, size_t* index) {
  *index = kEnd;
  size_t hash = 0;
  if (!hash_value(rt, key, &hash)) return false;
  const auto matches = [&](size_t i, bool* same) {
    *same = false;
    return entries[i].hash != hash || equal(rt, entries[i].key, key, same);
  };
  bool same = false;
  if (slots_.empty()) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (!matches(i, &same)) return false;
      if (same) {
        *index = i;
        return true;
      }
    }
    return true;
  }
  for (size_t slot = probe(hash); slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
    if (!rt.charge(1) || !matches(slots_[slot] - 1, &same)) return false;
    if (same) {
      *index = slots_[slot] - 1;
      return true;
    }
  }
  return true;
}

bool DictObject::find(Runtime& rt, const Value& key, Value** found) {
  size_t index = kEnd;
  if (!index_of(rt, key, &index)) return false;
  *found = index == kEnd ? nullptr : &entries[index].value;
  return true;
}

const Value* DictObject::find_text(std::string_view name) const {
  const size_t hash = std::hash<std::string_view>()(name);
  const auto matches = [&](const Entry& entry) {
    return entry.hash == hash && entry.key.is(Kind::kString) && entry.key.bytes() == name;
  };
  if (slots_.empty()) {
    for (const Entry& entry : entries) {
      if (matches(entry)) return &entry.value;
    }
    return nullptr;
  }
  for (size_t slot = probe(hash); slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
    if (matches(entries[slots_[slot] - 1])) return &entries[slots_[slot] - 1].value;
  }
  return nullptr;
}

bool DictObject::set(Runtime& rt, const Value& key, Value value) {
  size_t index = kEnd;
  if (!index_of(rt, key, &index)) return false;
  if (index != kEnd) {
    entries[index].value = std::move(value);
    return true;
  }
  size_t hash = 0;
  if (!hash_value(rt, key, &hash) || !rt.count_values(3)) return false;
  if (entries.size() >= 0xFFFFFFF0u) return rt.fail("a dict has too many entries");
  entries.push_back({key, std::move(value), hash});
  if (entries.size() <= kFewEntries) return true;
  if (slots_.size() < entries.size() * 2) {
    size_t slots = 32;
    while (slots < entries.size() * 4) slots *= 2;
    if (!rt.charge(entries.size())) return false;
    rebuild(slots);
    return true;
  }
  size_t slot = probe(hash);
  while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = static_cast<uint32_t>(entries.size());
  return true;
}

void DictObject::erase(size_t index) {
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(index));
  if (entries.size() <= kFewEntries) {
    slots_.clear();
    return;
  }
  size_t slots = slots_.size();
  while (slots > entries.size() * 8) slots /= 2;
  rebuild(slots);
}

bool truthy(Runtime&, const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.boolean;
    case Kind::kInt:
      return value.integer != 0;
    case Kind::kFloat:
      return value.number != 0;
    case Kind::kString:
      return !value.text->empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.as<ListObject>()->items.empty();
    case Kind::kDict:
      return !value.as<DictObject>()->entries.empty();
    case Kind::kDictView:
      return !value.as<DictViewObject>()->dict->entries.empty();
    case Kind::kRange:
      return value.as<RangeObject>()->size() > 0;
    default:
      return true;
  }
}

bool equal(Runtime& rt, const Value& a, const Value& b, bool* out, int depth) {
  if (depth > kMaxValueDepth) return too_deep(rt);
  if (!rt.charge(1)) return false;
  *out = false;
  if (a.is_numeric() && b.is_numeric()) {
    *out = equal_numbers(a, b);
    return true;
  }
  if (a.kind != b.kind) return true;
  switch (a.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      *out = true;
      return true;
    case Kind::kString:
      *out = a.bytes() == b.bytes();
      return rt.charge(a.text->size() / 64);
    case Kind::kList:
    case Kind::kTuple:
      return equal_items(rt, a.as<ListObject>()->items, b.as<ListObject>()->items, out, depth);
    case Kind::kDict:
      return equal_dicts(rt, *a.as<DictObject>(), *b.as<DictObject>(), out, depth);
    case Kind::kRange: {
      const auto *x = a.as<RangeObject>(), *y = b.as<RangeObject>();
      *out = x->size() == y->size() &&
             (x->size() == 0 || (x->start == y->start && (x->size() == 1 || x->step == y->step)));
      return true;
    }
    case Kind::kFunction:
      *out = a.function == b.function;
      return true;
    default:
      *out = a.object == b.object;
      return true;
  }
}

bool order(Runtime& rt, const Value& a, const Value& b, const char* op, int* out, int depth) {
  if (depth > kMaxValueDepth) return too_deep(rt);
  if (!rt.charge(1)) return false;
  if (a.is_numeric() && b.is_numeric()) {
    if (a.is_integral() && b.is_integral()) {
      *out = a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
    } else {
      const double x = a.as_double(), y = b.as_double();
      *out = equal_numbers(a, b) ? 0 : x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
    }
    return true;
  }
  if (a.is(Kind::kString) && b.is(Kind::kString)) {
    const int sign = a.bytes().compare(b.bytes());  // the byte order of UTF-8 is the order of code points
    *out = sign < 0 ? -1 : sign > 0 ? 1 : 0;
    return rt.charge(a.text->size() / 64);
  }
  if (a.kind == b.kind && (a.is(Kind::kList) || a.is(Kind::kTuple))) {
    const auto &x = a.as<ListObject>()->items, &y = b.as<ListObject>()->items;
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      bool same = false;
      if (!equal(rt, x[i], y[i], &same, depth + 1)) return false;
      if (!same) return order(rt, x[i], y[i], op, out, depth + 1);
    }
    *out = x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
    return true;
  }
  if (a.is(Kind::kUndefined) || b.is(Kind::kUndefined)) {
    return rt.fail_undefined(a.is(Kind::kUndefined) ? a : b);
  }
  return rt.fail(std::string("'") + op + "' not supported between instances of '" + type_name(a) + "' and '" +
                 type_name(b) + "'");
}

bool hash_value(Runtime& rt, const Value& value, size_t* out, int depth) {
  if (depth > kMaxValueDepth) return too_deep(rt);
  if (!rt.charge(1)) return false;
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      *out = static_cast<size_t>(value.kind) + 1;
      return true;
    case Kind::kBool:
    case Kind::kInt:
      *out = std::hash<int64_t>()(value.as_int());
      return true;
    case Kind::kFloat: {
      int64_t integer = 0;
      *out = exact_integer(value.number, &integer) ? std::hash<int64_t>()(integer) : std::hash<double>()(value.number);
      return true;
    }
    case Kind::kString:
      *out = std::hash<std::string_view>()(value.bytes());
      return rt.charge(value.text->size() / 32);
    case Kind::kTuple: {
      size_t hash = 7;
      for (const Value& item : value.as<ListObject>()->items) {
        size_t part = 0;
        if (!hash_value(rt, item, &part, depth + 1)) return false;
        hash = mix(hash, part);
      }
      *out = hash;
      return true;
    }
    case Kind::kRange: {
      const auto* range = value.as<RangeObject>();
      *out = mix(range->size(), range->size() == 0 ? 0 : static_cast<size_t>(range->start));
      return true;
    }
    case Kind::kList:
    case Kind::kDict:
    case Kind::kDictView:
      return rt.fail(std::string("unhashable type: '") + type_name(value) + "'");
    case Kind::kFunction:
      *out = std::hash<const void*>()(value.function);
      return true;
    default:
      *out = std::hash<const void*>()(value.object);
      return true;
  }
}

}  // namespace banter::text::jinja
