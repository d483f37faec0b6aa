// Functions that every template can call.
#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"

namespace banter::text::jinja {

namespace {

bool range(Runtime& rt, const Value&, const Arguments& args, Value* out) {
  if (!args.keyword.empty() || args.positional.empty() || args.positional.size() > 3) {
    return rt.fail("range() takes 1 to 3 positional arguments");
  }
  Bound bound;
  int64_t numbers[3] = {0, 0, 1};
  if (!bound.bind(rt, "range", args, {"start", "stop", "step"}, 1)) return false;
  auto* object = rt.make<RangeObject>();
  for (size_t i = 0; i < args.positional.size(); ++i) {
    constexpr int64_t kLargest = int64_t{1} << 40;  // keeps every product of step and index in 64 bits
    if (!bound.integer(rt, i, &numbers[i])) return false;
    if (numbers[i] > kLargest || numbers[i] < -kLargest) return rt.fail("range() has too large a bound");
    object->trusted = object->trusted && args.positional[i].trusted;
  }
  if (args.positional.size() == 1) {
    object->stop = numbers[0];
  } else {
    object->start = numbers[0];
    object->stop = numbers[1];
    object->step = numbers[2];
  }
  if (object->step == 0) return rt.fail("range() arg 3 must not be zero");
  if (object->size() > static_cast<size_t>(kMaxRange)) {
    return rt.fail("range() has more than " + std::to_string(kMaxRange) + " numbers");
  }
  *out = Value::of_object(Kind::kRange, object);
  return rt.check();
}

/** Entries of a mapping or pairs, then keyword arguments: what dict() and namespace() take. */
bool fill(Runtime& rt, const char* callee, const Arguments& args, DictObject* dict) {
  if (args.positional.size() > 1) return rt.fail(std::string(callee) + "() takes at most 1 positional argument");
  if (args.positional.size() == 1) {
    const Value& source = args.positional[0];
    if (source.is(Kind::kDict)) {
      for (const auto& entry : source.as<DictObject>()->entries) {
        if (!dict->set(rt, entry.key, entry.value)) return false;
      }
      dict->trusted = source.as<DictObject>()->trusted;
    } else {
      Elements elements;
      if (!elements.start(rt, source)) return false;
      while (true) {
        Value item;
        std::vector<Value> pair;
        bool done = false;
        if (!elements.next(rt, &item, &done)) return false;
        if (done) break;
        if (!collect(rt, item, &pair)) return false;
        if (pair.size() != 2) return rt.fail(std::string(callee) + "() needs pairs of key and value");
        if (!dict->set(rt, pair[0], pair[1])) return false;
      }
    }
  }
  for (const auto& [name, value] : args.keyword) {
    if (!dict->set(rt, rt.text(name), value)) return false;
  }
  return rt.check();
}

bool dict(Runtime& rt, const Value&, const Arguments& args, Value* out) {
  auto* object = rt.make<DictObject>();
  *out = Value::of_object(Kind::kDict, object);
  return fill(rt, "dict", args, object);
}

bool make_namespace(Runtime& rt, const Value&, const Arguments& args, Value* out) {
  auto* object = rt.make<NamespaceObject>();
  *out = Value::of_object(Kind::kNamespace, object);
  return fill(rt, "namespace", args, &object->attributes);
}

bool cycler(Runtime& rt, const Value&, const Arguments& args, Value* out) {
  if (!args.keyword.empty()) return rt.fail("cycler() takes no keyword arguments");
  if (args.positional.empty()) return rt.fail("at least one item has to be provided");
  auto* object = rt.make<CyclerObject>();
  if (!rt.count_values(args.positional.size())) return false;
  object->items = args.positional;
  *out = Value::of_object(Kind::kCycler, object);
  return true;
}

bool joiner(Runtime& rt, const Value&, const Arguments& args, Value* out) {
  Bound bound;
  auto* object = rt.make<JoinerObject>();
  object->separator = rt.text(", ").text;
  if (!bound.bind(rt, "joiner", args, {"sep"}) || (bound.has(0) && !to_text(rt, *bound[0], &object->separator))) {
    return false;
  }
  *out = Value::of_object(Kind::kJoiner, object);
  return rt.check();
}

bool raise_exception(Runtime& rt, const Value&, const Arguments& args, Value*) {
  Bound bound;
  TextPtr message;
  if (!bound.bind(rt, "raise_exception", args, {"message"}, 1) || !to_text(rt, *bound[0], &message)) return false;
  return rt.raise(std::string(message->bytes()));
}

bool strftime_now(Runtime& rt, const Value&, const Arguments& args, Value* out) {
  Bound bound;
  TextPtr format;
  if (!bound.bind(rt, "strftime_now", args, {"format"}, 1) || !bound.text(rt, 0, &format)) return false;
  if (!rt.charge(format->size()) || !rt.budget.fits_text(format->size() * 64)) return rt.check();
  *out = rt.text(format_time(format->bytes(), rt.now), format->all_trusted());
  return rt.check();
}

constexpr NamedFunction kGlobals[] = {
    {"cycler", cycler},
    {"dict", dict},
    {"joiner", joiner},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now},
};

}  // namespace

const NamedFunction* find_global(std::string_view name) {
  return find_in({kGlobals, std::size(kGlobals)}, name);
}

}  // namespace banter::text::jinja
