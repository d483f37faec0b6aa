// Tests: `value is name(args)`.
#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"

namespace banter::text::jinja {

namespace {

template <Kind... kinds>
bool is_kind(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  *out = Value::of_bool(((self.kind == kinds) || ...));
  return bound.bind(rt, "test", args, {});
}

template <Operator op>
bool compares(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  bool result = false;
  if (!bound.bind(rt, "test", args, {"other"}, 1) || !compare(rt, op, self, *bound[0], &result)) return false;
  *out = Value::of_bool(result);
  return true;
}

bool is_defined(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  *out = Value::of_bool(!self.is(Kind::kUndefined));
  return bound.bind(rt, "defined", args, {});
}

template <bool wanted>
bool is_exactly(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  *out = Value::of_bool(self.is(Kind::kBool) && self.boolean == wanted);
  return bound.bind(rt, wanted ? "true" : "false", args, {});
}

bool modulo_is(Runtime& rt, const Value& self, const Value& by, int64_t wanted, Value* out) {
  Value remainder;
  bool same = false;
  if (!arithmetic(rt, Operator::kModulo, self, by, &remainder) || !equal(rt, remainder, Value::of_int(wanted), &same)) {
    return false;
  }
  *out = Value::of_bool(same);
  return true;
}

bool is_odd(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  return bound.bind(rt, "odd", args, {}) && modulo_is(rt, self, Value::of_int(2), 1, out);
}

bool is_even(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  return bound.bind(rt, "even", args, {}) && modulo_is(rt, self, Value::of_int(2), 0, out);
}

bool is_divisible(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  return bound.bind(rt, "divisibleby", args, {"num"}, 1) && modulo_is(rt, self, *bound[0], 0, out);
}

bool is_iterable(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return is_kind<Kind::kUndefined, Kind::kString, Kind::kList, Kind::kTuple, Kind::kDict, Kind::kRange, Kind::kIterator,
                 Kind::kDictView, Kind::kLoop>(rt, self, args, out);
}

bool is_callable(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return is_kind<Kind::kUndefined, Kind::kMacro, Kind::kFunction, Kind::kMethod, Kind::kJoiner, Kind::kLoop>(rt, self,
                                                                                                             args, out);
}

bool is_same(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  bool same = false;
  if (!bound.bind(rt, "sameas", args, {"other"}, 1)) return false;
  if (self.kind == bound[0]->kind) {
    const bool scalar = self.kind <= Kind::kString;
    if (scalar && !equal(rt, self, *bound[0], &same)) return false;
    if (!scalar) same = self.object == bound[0]->object;
  }
  *out = Value::of_bool(same);
  return true;
}

/** str.islower() and str.isupper(): some cased letter, and none of the other case. */
bool has_case(Runtime& rt, const Value& self, const Arguments& args, bool upper, Value* out) {
  Bound bound;
  TextPtr text;
  if (!bound.bind(rt, upper ? "upper" : "lower", args, {}) || !to_text(rt, self, &text)) return false;
  const NamedFunction* method = find_text_method(upper ? "isupper" : "islower");
  return method->function(rt, Value::of_text(text), args, out);
}
bool is_lower(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return has_case(rt, self, args, false, out);
}
bool is_upper(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return has_case(rt, self, args, true, out);
}

bool is_escaped(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  *out = Value::of_bool(self.is(Kind::kString) && self.text->markup());
  return bound.bind(rt, "escaped", args, {});
}

bool is_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  *out = Value::of_bool(self.is(Kind::kString) && find_filter(self.bytes()) != nullptr);
  return bound.bind(rt, "filter", args, {});
}

bool is_test(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  *out = Value::of_bool(self.is(Kind::kString) && find_test(self.bytes()) != nullptr);
  return bound.bind(rt, "test", args, {});
}

constexpr NamedFunction kTests[] = {
    {"!=", compares<Operator::kNotEqual>},
    {"<", compares<Operator::kLess>},
    {"<=", compares<Operator::kLessEqual>},
    {"==", compares<Operator::kEqual>},
    {">", compares<Operator::kGreater>},
    {">=", compares<Operator::kGreaterEqual>},
    {"boolean", is_kind<Kind::kBool>},
    {"callable", is_callable},
    {"defined", is_defined},
    {"divisibleby", is_divisible},
    {"eq", compares<Operator::kEqual>},
    {"equalto", compares<Operator::kEqual>},
    {"escaped", is_escaped},
    {"even", is_even},
    {"false", is_exactly<false>},
    {"filter", is_filter},
    {"float", is_kind<Kind::kFloat>},
    {"ge", compares<Operator::kGreaterEqual>},
    {"greaterthan", compares<Operator::kGreater>},
    {"gt", compares<Operator::kGreater>},
    {"in", compares<Operator::kIn>},
    {"integer", is_kind<Kind::kInt>},
    {"iterable", is_iterable},
    {"le", compares<Operator::kLessEqual>},
    {"lessthan", compares<Operator::kLess>},
    {"lower", is_lower},
    {"lt", compares<Operator::kLess>},
    {"mapping", is_kind<Kind::kDict>},
    {"ne", compares<Operator::kNotEqual>},
    {"none", is_kind<Kind::kNone>},
    {"number", is_kind<Kind::kBool, Kind::kInt, Kind::kFloat>},
    {"odd", is_odd},
    {"sameas", is_same},
    {"sequence", is_kind<Kind::kUndefined, Kind::kString, Kind::kList, Kind::kTuple, Kind::kDict, Kind::kRange>},
    {"string", is_kind<Kind::kString>},
    {"test", is_test},
    {"true", is_exactly<true>},
    {"undefined", is_kind<Kind::kUndefined>},
    {"upper", is_upper},
};

}  // namespace

const NamedFunction* find_test(std::string_view name) {
  return find_in({kTests, std::size(kTests)}, name);
}

}  // namespace banter::text::jinja
