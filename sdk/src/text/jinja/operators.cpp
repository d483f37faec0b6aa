#include "text/jinja/operators.h"

#include <cmath>
#include <limits>

#include "text/jinja/search.h"

namespace banter::text::jinja {

namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

const char* symbol(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    case Operator::kPower:
      return "** or pow()";
    case Operator::kLess:
      return "<";
    case Operator::kLessEqual:
      return "<=";
    case Operator::kGreater:
      return ">";
    case Operator::kGreaterEqual:
      return ">=";
    default:
      return "==";
  }
}

bool unsupported(Runtime& rt, Operator op, const Value& a, const Value& b) {
  if (a.is(Kind::kUndefined) || b.is(Kind::kUndefined)) return rt.fail_undefined(a.is(Kind::kUndefined) ? a : b);
  if (op == Operator::kAdd && (a.is(Kind::kString) || a.is(Kind::kList) || a.is(Kind::kTuple))) {
    const std::string type = type_name(a);
    return rt.fail("can only concatenate " + type + " (not \"" + type_name(b) + "\") to " + type);
  }
  return rt.fail(std::string("unsupported operand type(s) for ") + symbol(op) + ": '" + type_name(a) + "' and '" +
                 type_name(b) + "'");
}

bool overflow(Runtime& rt) {
  return rt.fail("an integer exceeds 64 bits");
}

bool multiply_overflows(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return false;
  if ((a == -1 && b == kMin) || (b == -1 && a == kMin)) return true;
  if (a > 0) return b > 0 ? a > kMax / b : b < kMin / a;
  return b > 0 ? a < kMin / b : b < kMax / a;
}

bool integer_power(Runtime& rt, int64_t base, int64_t exponent, int64_t* out) {
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent & 1) {
      if (multiply_overflows(result, base)) return overflow(rt);
      result *= base;
    }
    exponent >>= 1;
    if (exponent == 0) break;
    if (multiply_overflows(base, base)) return overflow(rt);
    base *= base;
  }
  *out = result;
  return true;
}

bool integer_arithmetic(Runtime& rt, Operator op, int64_t a, int64_t b, int64_t* out) {
  switch (op) {
    case Operator::kAdd:
      if (b > 0 ? a > kMax - b : a < kMin - b) return overflow(rt);
      *out = a + b;
      return true;
    case Operator::kSubtract:
      if (b < 0 ? a > kMax + b : a < kMin + b) return overflow(rt);
      *out = a - b;
      return true;
    case Operator::kMultiply:
      if (multiply_overflows(a, b)) return overflow(rt);
      *out = a * b;
      return true;
    case Operator::kPower:
      return integer_power(rt, a, b, out);
    default: {  // // and %: the quotient rounds down, the remainder has the divisor's sign
      if (b == 0) return rt.fail("integer division or modulo by zero");
      if (b == -1) {
        if (a == kMin && op == Operator::kFloorDivide) return overflow(rt);
        *out = op == Operator::kFloorDivide ? -a : 0;
        return true;
      }
      int64_t quotient = a / b, remainder = a % b;
      if (remainder != 0 && (remainder < 0) != (b < 0)) {
        remainder += b;
        --quotient;
      }
      *out = op == Operator::kFloorDivide ? quotient : remainder;
      return true;
    }
  }
}

bool float_arithmetic(Runtime& rt, Operator op, double a, double b, double* out) {
  switch (op) {
    case Operator::kAdd:
      *out = a + b;
      return true;
    case Operator::kSubtract:
      *out = a - b;
      return true;
    case Operator::kMultiply:
      *out = a * b;
      return true;
    case Operator::kDivide:
      if (b == 0) return rt.fail("division by zero");
      *out = a / b;
      return true;
    case Operator::kPower:
      if (a == 0 && b < 0) return rt.fail("0.0 cannot be raised to a negative power");
      if (a < 0 && std::trunc(b) != b) return rt.fail("a negative number cannot be raised to a fractional power");
      *out = std::pow(a, b);
      if (std::isinf(*out) && !std::isinf(a) && !std::isinf(b)) return rt.fail("the result of ** is too large");
      return true;
    default: {
      if (b == 0) return rt.fail("float division or modulo by zero");
      double remainder = std::fmod(a, b);
      double quotient = (a - remainder) / b;
      if (remainder != 0) {
        if ((b < 0) != (remainder < 0)) {
          remainder += b;
          quotient -= 1.0;
        }
      } else {
        remainder = std::copysign(0.0, b);
      }
      double floored = std::floor(quotient);
      if (quotient - floored > 0.5) floored += 1.0;
      if (quotient == 0) floored = std::copysign(0.0, a / b);
      *out = op == Operator::kFloorDivide ? floored : remainder;
      return true;
    }
  }
}

bool number_arithmetic(Runtime& rt, Operator op, const Value& a, const Value& b, Value* out) {
  const bool trusted = a.trusted && b.trusted;
  const bool to_float = op == Operator::kDivide || (op == Operator::kPower && b.is_integral() && b.as_int() < 0);
  if (a.is_integral() && b.is_integral() && !to_float) {
    int64_t result = 0;
    if (!integer_arithmetic(rt, op, a.as_int(), b.as_int(), &result)) return false;
    *out = Value::of_int(result, trusted);
    return true;
  }
  double result = 0;
  if (!float_arithmetic(rt, op, a.as_double(), b.as_double(), &result)) return false;
  *out = Value::of_float(result, trusted);
  return true;
}

void append_operand(const Text& text, bool escape, TextBuilder& out) {
  if (escape && !text.markup()) {
    append_escaped(text, out);
  } else {
    out.append(text);
  }
}

bool concatenate(Runtime& rt, const Value& a, const Value& b, Value* out) {
  if (a.is(Kind::kString)) {
    const bool markup = a.text->markup() || b.text->markup();
    TextBuilder builder(rt.budget);
    append_operand(*a.text, markup, builder);
    append_operand(*b.text, markup, builder);
    return rt.finish(builder, out, markup);
  }
  const auto &x = *a.as<ListObject>(), &y = *b.as<ListObject>();
  if (!rt.budget.fits((x.items.size() + y.items.size()) * sizeof(Value))) return rt.check();
  std::vector<Value> items;
  items.reserve(x.items.size() + y.items.size());
  items.insert(items.end(), x.items.begin(), x.items.end());
  items.insert(items.end(), y.items.begin(), y.items.end());
  if (!rt.charge(items.size())) return false;
  *out = rt.make_list(std::move(items), a.kind);
  out->as<ListObject>()->trusted = x.trusted && y.trusted;
  return rt.check();
}

bool repeat(Runtime& rt, const Value& sequence, int64_t count, Value* out) {
  const uint64_t times = count > 0 ? static_cast<uint64_t>(count) : 0;
  if (sequence.is(Kind::kString)) {
    TextBuilder builder(rt.budget);
    builder.repeat(*sequence.text, times);
    return rt.finish(builder, out, sequence.text->markup());
  }
  const auto& source = *sequence.as<ListObject>();
  std::vector<Value> items;
  if (!source.items.empty() && times > 0) {
    if (times > kEnd / sizeof(Value) / source.items.size() ||
        !rt.budget.fits(static_cast<size_t>(times) * source.items.size() * sizeof(Value))) {
      rt.budget.fits(kEnd);
      return rt.check();
    }
    if (!rt.charge(times * source.items.size())) return false;
    for (uint64_t i = 0; i < times; ++i) items.insert(items.end(), source.items.begin(), source.items.end());
  }
  *out = rt.make_list(std::move(items), sequence.kind);
  return rt.check();
}

bool is_sequence(const Value& value) {
  return value.is(Kind::kString) || value.is(Kind::kList) || value.is(Kind::kTuple);
}

}  // namespace

void append_escaped(const Text& text, TextBuilder& out) {
  const std::string_view bytes = text.bytes();
  size_t begin = 0;
  for (size_t i = 0; i < bytes.size() && out.budget().ok(); ++i) {
    const char* reference = nullptr;
    switch (bytes[i]) {
      case '&':
        reference = "&amp;";
        break;
      case '<':
        reference = "&lt;";
        break;
      case '>':
        reference = "&gt;";
        break;
      case '\'':
        reference = "&#39;";
        break;
      case '"':
        reference = "&#34;";
        break;
      default:
        continue;
    }
    out.append(text, begin, i);
    out.append(reference, text.trusted_at(i));
    begin = i + 1;
  }
  out.append(text, begin);
}

bool arithmetic(Runtime& rt, Operator op, const Value& a, const Value& b, Value* out) {
  if (a.is_numeric() && b.is_numeric()) return number_arithmetic(rt, op, a, b, out);
  if (op == Operator::kAdd && a.kind == b.kind && is_sequence(a)) return concatenate(rt, a, b, out);
  if (op == Operator::kMultiply) {
    if (is_sequence(a) && b.is_integral()) return repeat(rt, a, b.as_int(), out);
    if (a.is_integral() && is_sequence(b)) return repeat(rt, b, a.as_int(), out);
  }
  if (op == Operator::kModulo && a.is(Kind::kString)) return format_percent(rt, a.text, b, out);
  return unsupported(rt, op, a, b);
}

bool negate(Runtime& rt, const Value& a, bool minus, Value* out) {
  if (a.is(Kind::kUndefined)) return rt.fail_undefined(a);
  if (a.is_integral()) {
    if (minus && a.as_int() == kMin) return overflow(rt);
    *out = Value::of_int(minus ? -a.as_int() : a.as_int(), a.trusted);
    return true;
  }
  if (a.is(Kind::kFloat)) {
    *out = Value::of_float(minus ? -a.number : a.number, a.trusted);
    return true;
  }
  return rt.fail(std::string("bad operand type for unary ") + (minus ? "-" : "+") + ": '" + type_name(a) + "'");
}

bool contains(Runtime& rt, const Value& container, const Value& item, bool* out) {
  *out = false;
  if (container.is(Kind::kString)) {
    if (!item.is(Kind::kString)) {
      if (item.is(Kind::kUndefined)) return rt.fail_undefined(item);
      return rt.fail(std::string("'in <string>' requires string as left operand, not ") + type_name(item));
    }
    *out = Searcher(rt.budget, item.bytes()).find(container.bytes()) != std::string_view::npos;
    return rt.check();
  }
  const bool keys =
      container.is(Kind::kDictView) && container.as<DictViewObject>()->what == DictViewObject::What::kKeys;
  if (container.is(Kind::kDict) || keys) {
    auto* dict = keys ? container.as<DictViewObject>()->dict : container.as<DictObject>();
    Value* found = nullptr;
    if (!dict->find(rt, item, &found)) return false;
    *out = found != nullptr;
    return true;
  }
  Elements elements;
  if (!elements.start(rt, container)) return false;
  while (!*out) {
    Value element;
    bool done = false;
    if (!elements.next(rt, &element, &done)) return false;
    if (done) break;
    if (!equal(rt, element, item, out)) return false;
  }
  return true;
}

bool compare(Runtime& rt, Operator op, const Value& a, const Value& b, bool* out) {
  switch (op) {
    case Operator::kEqual:
      return equal(rt, a, b, out);
    case Operator::kNotEqual:
      if (!equal(rt, a, b, out)) return false;
      *out = !*out;
      return true;
    case Operator::kIn:
      return contains(rt, b, a, out);
    case Operator::kNotIn:
      if (!contains(rt, b, a, out)) return false;
      *out = !*out;
      return true;
    default:
      break;
  }
  int sign = 0;
  if (!order(rt, a, b, symbol(op), &sign)) return false;
  *out = sign != 2 && (op == Operator::kLess        ? sign < 0
                       : op == Operator::kLessEqual ? sign <= 0
                       : op == Operator::kGreater   ? sign > 0
                                                    : sign >= 0);
  return true;
}

}  // namespace banter::text::jinja
