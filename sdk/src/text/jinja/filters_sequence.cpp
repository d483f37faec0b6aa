// Filters on sequences and mappings.
#include <algorithm>

#include "text/jinja/builtins.h"

namespace banter::text::jinja {

namespace {

bool length(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  size_t size = 0;
  bool known = false;
  if (!bound.bind(rt, "length", args, {}) || !length_of(rt, self, &size, &known)) return false;
  if (!known) return rt.fail(std::string("object of type '") + type_name(self) + "' has no len()");
  *out = Value::of_int(static_cast<int64_t>(size));
  return true;
}

bool join_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  TextPtr separator = rt.text("").text;
  AttributePath path;
  Elements elements;
  if (!bound.bind(rt, "join", args, {"d", "attribute"}) || (bound.has(0) && !to_text(rt, *bound[0], &separator)) ||
      (bound.some(1) && !path.parse(rt, *bound[1])) || !elements.start(rt, self)) {
    return false;
  }
  TextBuilder builder(rt.budget);
  for (bool first = true;; first = false) {
    Value item, shown;
    bool done = false;
    if (!elements.next(rt, &item, &done)) return false;
    if (done) break;
    if (!path.get(rt, item, &shown)) return false;
    if (!first) builder.append(*separator);
    if (!append_str(rt, shown, builder)) return false;
  }
  return rt.finish(builder, out);
}

bool default_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  bool boolean = false;
  if (!bound.bind(rt, "default", args, {"default_value", "boolean"}) || !bound.flag(rt, 1, &boolean)) return false;
  if (!self.is(Kind::kUndefined) && !(boolean && !truthy(rt, self))) {
    *out = self;
  } else {
    *out = bound.has(0) ? *bound[0] : rt.text("");
  }
  return true;
}

bool first(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  Elements elements;
  bool done = false;
  if (!bound.bind(rt, "first", args, {}) || !elements.start(rt, self) || !elements.next(rt, out, &done)) return false;
  if (done) *out = rt.undefined("No first item, sequence was empty.");
  return rt.check();
}

bool last(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  std::vector<Value> items;
  if (!bound.bind(rt, "last", args, {})) return false;
  if (self.is(Kind::kIterator)) return rt.fail("'generator' object is not reversible");
  if (!collect(rt, self, &items)) return false;
  *out = items.empty() ? rt.undefined("No last item, sequence was empty.") : items.back();
  return rt.check();
}

bool list_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  std::vector<Value> items;
  if (!bound.bind(rt, "list", args, {}) || !collect(rt, self, &items)) return false;
  *out = rt.make_list(std::move(items));
  return rt.check();
}

bool items_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  if (!bound.bind(rt, "items", args, {})) return false;
  std::vector<Value> items;
  if (self.is(Kind::kDict)) {
    for (const auto& entry : self.as<DictObject>()->entries) {
      if (!rt.charge(1) || !rt.budget.fits((items.size() + 1) * sizeof(Value))) return rt.check();
      items.push_back(rt.make_list({entry.key, entry.value}, Kind::kTuple));
    }
  } else if (!self.is(Kind::kUndefined)) {
    return rt.fail("Can only get item pairs from a mapping.");
  }
  *out = rt.make_iterator(std::move(items));
  return rt.check();
}

bool dictsort(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  bool case_sensitive = false, reverse = false;
  TextPtr by = rt.text("key").text;
  if (!bound.bind(rt, "dictsort", args, {"case_sensitive", "by", "reverse"}) || !bound.flag(rt, 0, &case_sensitive) ||
      !bound.text(rt, 1, &by) || !bound.flag(rt, 2, &reverse)) {
    return false;
  }
  if (by->bytes() != "key" && by->bytes() != "value") {
    return rt.fail("You can only sort by either \"key\" or \"value\"");
  }
  if (self.is(Kind::kUndefined)) return rt.fail_undefined(self);
  if (!self.is(Kind::kDict)) return rt.fail("dictsort() needs a mapping");
  std::vector<Value> keys, items;
  for (const auto& entry : self.as<DictObject>()->entries) {
    Value key = by->bytes() == "key" ? entry.key : entry.value;
    if (!case_sensitive && !ignore_case(rt, key, &key)) return false;
    if (!rt.budget.fits((keys.size() + 1) * 3 * sizeof(Value))) return rt.check();
    keys.push_back(std::move(key));
  }
  std::vector<size_t> indices;
  if (!sort_indices(rt, keys, reverse, &indices)) return false;
  for (const size_t i : indices) {
    const auto& entry = self.as<DictObject>()->entries[i];
    items.push_back(rt.make_list({entry.key, entry.value}, Kind::kTuple));
  }
  *out = rt.make_list(std::move(items));
  return rt.check();
}

bool reverse_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  if (!bound.bind(rt, "reverse", args, {})) return false;
  if (self.is(Kind::kString)) {
    return get_slice(rt, self, Value::none(), Value::none(), Value::of_int(-1), out);
  }
  if (self.is(Kind::kUndefined)) {
    *out = rt.make_iterator({});
    return rt.check();
  }
  std::vector<Value> items;
  if (!collect(rt, self, &items)) return false;
  std::reverse(items.begin(), items.end());
  *out = rt.make_iterator(std::move(items));
  return rt.check();
}

bool batch(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  int64_t count = 0;
  std::vector<Value> items, rows, row;
  if (!bound.bind(rt, "batch", args, {"linecount", "fill_with"}, 1) || !bound.integer(rt, 0, &count) ||
      !collect(rt, self, &items)) {
    return false;
  }
  for (Value& item : items) {
    if (static_cast<int64_t>(row.size()) == count) {
      rows.push_back(rt.make_list(std::move(row)));
      row.clear();
      if (!rt.charge(1)) return false;
    }
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    const auto missing = count - static_cast<int64_t>(row.size());
    if (bound.some(1) && missing > 0) {
      if (!rt.count_values(static_cast<uint64_t>(missing))) return false;
      row.insert(row.end(), static_cast<size_t>(missing), *bound[1]);
    }
    rows.push_back(rt.make_list(std::move(row)));
  }
  *out = rt.make_iterator(std::move(rows));
  return rt.check();
}

bool slice_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  int64_t count = 0;
  std::vector<Value> items, rows;
  if (!bound.bind(rt, "slice", args, {"slices", "fill_with"}, 1) || !bound.integer(rt, 0, &count) ||
      !collect(rt, self, &items)) {
    return false;
  }
  if (count == 0) return rt.fail("integer division or modulo by zero");
  if (count > 0 && !rt.count_values(static_cast<uint64_t>(count) * 2)) return false;
  const auto size = static_cast<int64_t>(items.size());
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool extra = i < size % count;
    const int64_t end = at + size / count + extra;
    std::vector<Value> row(items.begin() + at, items.begin() + end);
    if (bound.some(1) && !extra) row.push_back(*bound[1]);
    rows.push_back(rt.make_list(std::move(row)));
    if (!rt.check()) return false;
    at = end;
  }
  *out = rt.make_iterator(std::move(rows));
  return rt.check();
}

bool attr(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  TextPtr name;
  if (!bound.bind(rt, "attr", args, {"name"}, 1) || !bound.text(rt, 0, &name)) return false;
  if (self.is(Kind::kDict)) {  // attributes proper: the entries of a mapping are none
    const NamedFunction* method = find_method(self, name->bytes());
    if (method == nullptr) {
      *out = rt.undefined("'dict object' has no attribute '" + std::string(name->bytes()) + "'");
      return rt.check();
    }
  }
  return get_attribute(rt, self, name->bytes(), out);
}

constexpr NamedFunction kFilters[] = {
    {"attr", attr},
    {"batch", batch},
    {"count", length},
    {"d", default_filter},
    {"default", default_filter},
    {"dictsort", dictsort},
    {"first", first},
    {"items", items_filter},
    {"join", join_filter},
    {"last", last},
    {"length", length},
    {"list", list_filter},
    {"reverse", reverse_filter},
    {"slice", slice_filter},
};

}  // namespace

FunctionTable sequence_filters() {
  return {kFilters, std::size(kFilters)};
}

}  // namespace banter::text::jinja
