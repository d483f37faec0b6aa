// Methods of list, tuple, dict and the small helper objects. Methods that change a list or dict work on the render's
// own copies: nothing of the caller changes.
#include <algorithm>

#include "text/jinja/builtins.h"

namespace banter::text::jinja {

namespace {

std::vector<Value>& items_of(const Value& self) {
  return self.as<ListObject>()->items;
}
DictObject& dict_of(const Value& self) {
  return *self.as<DictObject>();
}

bool list_append(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  if (!bound.bind(rt, "append", args, {"object"}, 1) || !rt.count_values(1)) return false;
  items_of(self).push_back(*bound[0]);
  *out = Value::none();
  return true;
}

bool list_extend(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  std::vector<Value> more;
  if (!bound.bind(rt, "extend", args, {"iterable"}, 1) || !collect(rt, *bound[0], &more) ||
      !rt.count_values(more.size())) {
    return false;
  }
  items_of(self).insert(items_of(self).end(), more.begin(), more.end());
  *out = Value::none();
  return true;
}

bool list_insert(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  int64_t at = 0;
  if (!bound.bind(rt, "insert", args, {"index", "object"}, 2) || !bound.integer(rt, 0, &at) || !rt.count_values(1)) {
    return false;
  }
  auto& items = items_of(self);
  const auto size = static_cast<int64_t>(items.size());
  at = std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  if (!rt.charge(items.size() / 8)) return false;
  const Value item = *bound[1];
  items.insert(items.begin() + at, item);
  *out = Value::none();
  return true;
}

bool list_pop(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  int64_t at = -1;
  if (!bound.bind(rt, "pop", args, {"index"}) || !bound.integer(rt, 0, &at)) return false;
  auto& items = items_of(self);
  const auto size = static_cast<int64_t>(items.size());
  if (at < 0) at += size;
  if (at < 0 || at >= size) return rt.fail(size == 0 ? "pop from empty list" : "pop index out of range");
  if (!rt.charge(items.size() / 8)) return false;
  *out = items[static_cast<size_t>(at)];
  items.erase(items.begin() + at);
  return true;
}

bool list_reverse(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  if (!bound.bind(rt, "reverse", args, {}) || !rt.charge(items_of(self).size())) return false;
  std::reverse(items_of(self).begin(), items_of(self).end());
  *out = Value::none();
  return true;
}

bool list_copy(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  if (!bound.bind(rt, "copy", args, {})) return false;
  return get_slice(rt, self, Value::none(), Value::none(), Value::none(), out);
}

bool list_clear(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  items_of(self).clear();
  *out = Value::none();
  return bound.bind(rt, "clear", args, {});
}

bool list_index(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  if (!bound.bind(rt, "index", args, {"value"}, 1)) return false;
  for (size_t i = 0; i < items_of(self).size(); ++i) {
    bool same = false;
    if (!equal(rt, items_of(self)[i], *bound[0], &same)) return false;
    if (same) {
      *out = Value::of_int(static_cast<int64_t>(i));
      return true;
    }
  }
  return rt.fail("the value is not in the list");
}

bool list_count(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  int64_t found = 0;
  if (!bound.bind(rt, "count", args, {"value"}, 1)) return false;
  for (const Value& item : items_of(self)) {
    bool same = false;
    if (!equal(rt, item, *bound[0], &same)) return false;
    found += same;
  }
  *out = Value::of_int(found);
  return true;
}

bool list_remove(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Value at;
  if (!list_index(rt, self, args, &at) || !rt.charge(items_of(self).size() / 8)) return false;
  items_of(self).erase(items_of(self).begin() + at.integer);
  *out = Value::none();
  return true;
}

bool make_view(Runtime& rt, const Value& self, const Arguments& args, DictViewObject::What what, Value* out) {
  Bound bound;
  auto* view = rt.make<DictViewObject>();
  view->dict = &dict_of(self);
  view->what = what;
  *out = Value::of_object(Kind::kDictView, view);
  return bound.bind(rt, "dict view", args, {}) && rt.check();
}
bool dict_keys(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return make_view(rt, self, args, DictViewObject::What::kKeys, out);
}
bool dict_values(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return make_view(rt, self, args, DictViewObject::What::kValues, out);
}
bool dict_items(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return make_view(rt, self, args, DictViewObject::What::kItems, out);
}

bool dict_get(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  Value* found = nullptr;
  if (!bound.bind(rt, "get", args, {"key", "default"}, 1) || !dict_of(self).find(rt, *bound[0], &found)) return false;
  *out = found != nullptr ? *found : bound.has(1) ? *bound[1] : Value::none();
  return true;
}

bool dict_pop(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  size_t at = kEnd;
  if (!bound.bind(rt, "pop", args, {"key", "default"}, 1) || !dict_of(self).index_of(rt, *bound[0], &at)) return false;
  if (at == kEnd) {
    if (!bound.has(1)) return rt.fail("pop(): the key is not in the dict");
    *out = *bound[1];
    return true;
  }
  if (!rt.charge(dict_of(self).entries.size())) return false;
  *out = dict_of(self).entries[at].value;
  dict_of(self).erase(at);
  return true;
}

bool dict_setdefault(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  Value* found = nullptr;
  if (!bound.bind(rt, "setdefault", args, {"key", "default"}, 1) || !dict_of(self).find(rt, *bound[0], &found)) {
    return false;
  }
  if (found != nullptr) {
    *out = *found;
    return true;
  }
  *out = bound.has(1) ? *bound[1] : Value::none();
  return dict_of(self).set(rt, *bound[0], *out);
}

bool dict_update(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  if (args.positional.size() > 1) return rt.fail("update() takes at most 1 positional argument");
  if (args.positional.size() == 1) {
    if (!args.positional[0].is(Kind::kDict)) return rt.fail("update() needs a mapping");
    const std::vector<DictObject::Entry> entries = dict_of(args.positional[0]).entries;  // may be this very dict
    for (const auto& entry : entries) {
      if (!dict_of(self).set(rt, entry.key, entry.value)) return false;
    }
  }
  for (const auto& [name, value] : args.keyword) {
    if (!dict_of(self).set(rt, rt.text(name), value)) return false;
  }
  *out = Value::none();
  return rt.check();
}

bool dict_copy(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  if (!bound.bind(rt, "copy", args, {}) || !rt.count_values(dict_of(self).entries.size() * 3)) return false;
  auto* copy = rt.make<DictObject>();
  copy->trusted = dict_of(self).trusted;
  *out = Value::of_object(Kind::kDict, copy);
  for (const auto& entry : dict_of(self).entries) {
    if (!copy->set(rt, entry.key, entry.value)) return false;
  }
  return rt.check();
}

bool cycler_next(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  auto* cycler = self.as<CyclerObject>();
  *out = cycler->items[cycler->position];
  cycler->position = (cycler->position + 1) % cycler->items.size();
  return bound.bind(rt, "next", args, {});
}

bool cycler_reset(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  self.as<CyclerObject>()->position = 0;
  *out = Value::none();
  return bound.bind(rt, "reset", args, {});
}

constexpr NamedFunction kListMethods[] = {
    {"append", list_append}, {"clear", list_clear},     {"copy", list_copy},     {"count", list_count},
    {"extend", list_extend}, {"index", list_index},     {"insert", list_insert}, {"pop", list_pop},
    {"remove", list_remove}, {"reverse", list_reverse},
};
constexpr NamedFunction kTupleMethods[] = {{"count", list_count}, {"index", list_index}};
constexpr NamedFunction kDictMethods[] = {
    {"copy", dict_copy},     {"get", dict_get},       {"items", dict_items},
    {"keys", dict_keys},     {"pop", dict_pop},       {"setdefault", dict_setdefault},
    {"update", dict_update}, {"values", dict_values},
};
constexpr NamedFunction kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};

}  // namespace

const NamedFunction* find_container_method(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::kList:
      return find_in({kListMethods, std::size(kListMethods)}, name);
    case Kind::kTuple:
      return find_in({kTupleMethods, std::size(kTupleMethods)}, name);
    case Kind::kDict:
      return find_in({kDictMethods, std::size(kDictMethods)}, name);
    case Kind::kCycler:
      return find_in({kCyclerMethods, std::size(kCyclerMethods)}, name);
    default:
      return nullptr;
  }
}

}  // namespace banter::text::jinja
