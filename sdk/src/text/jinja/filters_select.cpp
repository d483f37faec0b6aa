// Filters that look into the elements: map, select, sort, group.
#include <algorithm>

#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"

namespace banter::text::jinja {

namespace {

bool push(Runtime& rt, std::vector<Value>* items, Value value) {
  if (!rt.budget.fits((items->size() + 1) * sizeof(Value))) return rt.check();
  items->push_back(std::move(value));
  return true;
}

/** map(attribute=…, default=…) or map('filter', args…). */
bool map(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  if (!truthy(rt, self)) {  // none and undefined too: Jinja2 does not look at the arguments then
    *out = rt.make_iterator({});
    return rt.check();
  }
  AttributePath path;
  const NamedFunction* filter = nullptr;
  Arguments rest;
  Value fallback;
  if (args.positional.empty() && !args.keyword.empty()) {
    Bound bound;
    if (!bound.bind(rt, "map", args, {"attribute", "default"}) || !bound.has(0)) {
      return rt.fail("map() needs a filter name or attribute=…");
    }
    if (!path.parse(rt, *bound[0])) return false;
    if (bound.some(1)) {
      fallback = *bound[1];
      path.fallback = &fallback;
    }
  } else {
    if (args.positional.empty() || !args.positional[0].is(Kind::kString)) {
      return rt.fail("map() needs a filter name or attribute=…");
    }
    filter = find_filter(args.positional[0].bytes());
    if (filter == nullptr) {
      return rt.fail("No filter named '" + std::string(args.positional[0].bytes().substr(0, 64)) + "'.");
    }
    rest.positional.assign(args.positional.begin() + 1, args.positional.end());
    rest.keyword = args.keyword;
  }
  Elements elements;
  std::vector<Value> items;
  if (!elements.start(rt, self)) return false;
  Nesting nesting(rt);
  if (!nesting.ok()) return false;
  while (true) {
    Value item, mapped;
    bool done = false;
    if (!elements.next(rt, &item, &done)) return false;
    if (done) break;
    const bool ok = filter != nullptr ? filter->function(rt, item, rest, &mapped) : path.get(rt, item, &mapped);
    if (!ok || !rt.check() || !push(rt, &items, std::move(mapped))) return false;
  }
  *out = rt.make_iterator(std::move(items));
  return rt.check();
}

/** The four of select, reject, selectattr, rejectattr. */
bool choose(Runtime& rt, const Value& self, const Arguments& args, bool keep, bool by_attribute, Value* out) {
  if (!truthy(rt, self)) {
    *out = rt.make_iterator({});
    return rt.check();
  }
  AttributePath path;
  const size_t skip = by_attribute ? 1 : 0;
  if (by_attribute) {
    if (args.positional.empty()) return rt.fail("Missing parameter for attribute name");
    if (!path.parse(rt, args.positional[0])) return false;
  }
  const NamedFunction* test = nullptr;
  Arguments rest;
  if (args.positional.size() > skip) {
    const Value& name = args.positional[skip];
    if (name.is(Kind::kString)) test = find_test(name.bytes());
    if (test == nullptr) {
      return rt.fail("No test named '" + std::string(name.bytes().substr(0, 64)) + "'.");
    }
    rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(skip) + 1, args.positional.end());
    rest.keyword = args.keyword;
  }
  Elements elements;
  std::vector<Value> items;
  if (!elements.start(rt, self)) return false;
  Nesting nesting(rt);
  if (!nesting.ok()) return false;
  while (true) {
    Value item, subject, verdict;
    bool done = false;
    if (!elements.next(rt, &item, &done)) return false;
    if (done) break;
    if (!path.get(rt, item, &subject)) return false;
    if (test == nullptr) {
      verdict = subject;
    } else if (!test->function(rt, subject, rest, &verdict) || !rt.check()) {
      return false;
    }
    if (truthy(rt, verdict) == keep && !push(rt, &items, std::move(item))) return false;
  }
  *out = rt.make_iterator(std::move(items));
  return rt.check();
}

bool select(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return choose(rt, self, args, true, false, out);
}
bool reject(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return choose(rt, self, args, false, false, out);
}
bool selectattr(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return choose(rt, self, args, true, true, out);
}
bool rejectattr(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return choose(rt, self, args, false, true, out);
}

/** The key of every element: its attribute, without case where wanted. */
bool keys_of(Runtime& rt, const std::vector<Value>& items, const AttributePath& path, bool case_sensitive,
             std::vector<Value>* keys) {
  for (const Value& item : items) {
    Value key;
    if (!path.get(rt, item, &key) || (!case_sensitive && !ignore_case(rt, key, &key)) ||
        !push(rt, keys, std::move(key))) {
      return false;
    }
  }
  return true;
}

bool sort(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  bool reverse = false, case_sensitive = false;
  std::vector<Value> items, keys;
  if (!bound.bind(rt, "sort", args, {"reverse", "case_sensitive", "attribute"}) || !bound.flag(rt, 0, &reverse) ||
      !bound.flag(rt, 1, &case_sensitive) || !collect(rt, self, &items)) {
    return false;
  }
  std::vector<Value> names;
  if (bound.some(2) && bound[2]->is(Kind::kString)) {
    const TextPtr comma = rt.text(",").text;
    if (!split(rt, bound[2]->text, comma.get(), -1, false, &names)) return false;
  } else {
    names.push_back(bound.some(2) ? *bound[2] : Value::none());
  }
  std::vector<std::vector<Value>> columns(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    AttributePath path;
    if (!path.parse(rt, names[i]) || !keys_of(rt, items, path, case_sensitive, &columns[i])) return false;
  }
  for (size_t row = 0; row < items.size(); ++row) {
    if (columns.size() == 1) break;
    std::vector<Value> key;
    for (const auto& column : columns) key.push_back(column[row]);
    if (!push(rt, &keys, rt.make_list(std::move(key)))) return false;
  }
  std::vector<size_t> indices;
  if (!sort_indices(rt, columns.size() == 1 ? columns[0] : keys, reverse, &indices)) return false;
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t i : indices) sorted.push_back(items[i]);
  *out = rt.make_list(std::move(sorted));
  return rt.check();
}

bool unique(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  AttributePath path;
  bool case_sensitive = false;
  std::vector<Value> items, keys, kept;
  if (!bound.bind(rt, "unique", args, {"case_sensitive", "attribute"}) || !bound.flag(rt, 0, &case_sensitive) ||
      (bound.some(1) && !path.parse(rt, *bound[1])) || !collect(rt, self, &items) ||
      !keys_of(rt, items, path, case_sensitive, &keys)) {
    return false;
  }
  DictObject seen;
  for (size_t i = 0; i < items.size(); ++i) {
    const size_t before = seen.entries.size();
    if (!seen.set(rt, keys[i], Value::none())) return false;
    if (seen.entries.size() > before) kept.push_back(items[i]);
  }
  *out = rt.make_iterator(std::move(kept));
  return rt.check();
}

bool extreme(Runtime& rt, const Value& self, const Arguments& args, bool largest, Value* out) {
  Bound bound;
  AttributePath path;
  bool case_sensitive = false;
  std::vector<Value> items, keys;
  if (!bound.bind(rt, largest ? "max" : "min", args, {"case_sensitive", "attribute"}) ||
      !bound.flag(rt, 0, &case_sensitive) || (bound.some(1) && !path.parse(rt, *bound[1])) ||
      !collect(rt, self, &items) || !keys_of(rt, items, path, case_sensitive, &keys)) {
    return false;
  }
  if (items.empty()) {
    *out = rt.undefined("No aggregated item, sequence was empty.");
    return rt.check();
  }
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    int sign = 0;
    if (!order(rt, keys[i], keys[best], largest ? ">" : "<", &sign)) return false;
    if (sign == (largest ? 1 : -1)) best = i;
  }
  *out = items[best];
  return true;
}

bool min(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return extreme(rt, self, args, false, out);
}
bool max(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return extreme(rt, self, args, true, out);
}

bool sum(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  AttributePath path;
  Elements elements;
  if (!bound.bind(rt, "sum", args, {"attribute", "start"}) || (bound.some(0) && !path.parse(rt, *bound[0])) ||
      !elements.start(rt, self)) {
    return false;
  }
  *out = bound.has(1) ? *bound[1] : Value::of_int(0);
  if (out->is(Kind::kString)) return rt.fail("sum() can't sum strings [use ''.join(seq) instead]");
  while (true) {
    Value item, part, total;
    bool done = false;
    if (!elements.next(rt, &item, &done)) return false;
    if (done) return true;
    if (!path.get(rt, item, &part) || !arithmetic(rt, Operator::kAdd, *out, part, &total)) return false;
    *out = std::move(total);
  }
}

bool groupby(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  AttributePath path;
  bool case_sensitive = false;
  std::vector<Value> items, keys, groups;
  if (!bound.bind(rt, "groupby", args, {"attribute", "default", "case_sensitive"}, 1) ||
      !bound.flag(rt, 2, &case_sensitive) || !path.parse(rt, *bound[0])) {
    return false;
  }
  if (bound.some(1)) path.fallback = bound[1];
  if (!collect(rt, self, &items) || !keys_of(rt, items, path, case_sensitive, &keys)) return false;
  std::vector<size_t> indices;
  if (!sort_indices(rt, keys, false, &indices)) return false;
  for (size_t begin = 0; begin < indices.size();) {
    std::vector<Value> members;
    size_t end = begin;
    for (; end < indices.size(); ++end) {
      bool same = false;
      if (!equal(rt, keys[indices[begin]], keys[indices[end]], &same)) return false;
      if (!same) break;
      members.push_back(items[indices[end]]);
    }
    Value grouper = keys[indices[begin]];
    if (end == begin) return rt.fail("groupby() needs comparable keys");  // a NaN equals nothing, itself included
    if (!case_sensitive && !path.get(rt, members[0], &grouper)) return false;
    Value group = rt.make_list({grouper, rt.make_list(std::move(members))}, Kind::kTuple);
    group.as<ListObject>()->group = true;
    groups.push_back(std::move(group));
    begin = end;
  }
  *out = rt.make_list(std::move(groups));
  return rt.check();
}

constexpr NamedFunction kFilters[] = {
    {"groupby", groupby}, {"map", map},
    {"max", max},         {"min", min},
    {"reject", reject},   {"rejectattr", rejectattr},
    {"select", select},   {"selectattr", selectattr},
    {"sort", sort},       {"sum", sum},
    {"unique", unique},
};

}  // namespace

FunctionTable selection_filters() {
  return {kFilters, std::size(kFilters)};
}

}  // namespace banter::text::jinja
