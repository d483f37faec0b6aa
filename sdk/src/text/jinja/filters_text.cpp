// Filters on strings and numbers.
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "text/jinja/builtins.h"

namespace banter::text::jinja {

namespace {

bool no_arguments(Runtime& rt, std::string_view name, const Arguments& args) {
  Bound bound;
  return bound.bind(rt, name, args, {});
}

bool upper(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  TextPtr text;
  if (!no_arguments(rt, "upper", args) || !to_text(rt, self, &text)) return false;
  TextBuilder builder(rt.budget);
  append_upper(builder, *text, 0, text->size());
  return rt.finish(builder, out, text->markup());
}

bool lower(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  TextPtr text;
  if (!no_arguments(rt, "lower", args) || !to_text(rt, self, &text)) return false;
  TextBuilder builder(rt.budget);
  append_lower(builder, *text, 0, text->size());
  return rt.finish(builder, out, text->markup());
}

bool capitalize_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  TextPtr text;
  return no_arguments(rt, "capitalize", args) && to_text(rt, self, &text) && capitalize(rt, *text, out);
}

/** Words start behind white space and - ( { [ <, unlike in str.title(). */
bool title(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  TextPtr text;
  if (!no_arguments(rt, "title", args) || !to_text(rt, self, &text)) return false;
  TextBuilder builder(rt.budget);
  const std::string_view bytes = text->bytes();
  const auto starts_word = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (size_t i = 0; i < bytes.size() && rt.budget.ok();) {
    const size_t begin = i;
    size_t next = i;
    const bool border = starts_word(next_code_point(bytes, &next));
    size_t end = i;
    while (end < bytes.size()) {
      next = end;
      if (starts_word(next_code_point(bytes, &next)) != border) break;
      end = next;
    }
    i = end;
    if (border) {
      builder.append(*text, begin, end);
      continue;
    }
    size_t first = begin;
    next_code_point(bytes, &first);
    append_upper(builder, *text, begin, first);
    const TextPtr rest = slice(rt.budget, text, first, end);
    append_lower(builder, *rest, 0, rest->size());
  }
  return rt.finish(builder, out);
}

bool trim(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  TextPtr text, chars;
  if (!bound.bind(rt, "trim", args, {"chars"}) || !to_text(rt, self, &text)) return false;
  if (bound.some(0) && !bound.text(rt, 0, &chars)) return false;
  *out = Value::of_text(strip(rt, text, chars.get(), {}));
  return rt.check();
}

bool replace_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  TextPtr text, old, with;
  int64_t count = -1;
  if (!bound.bind(rt, "replace", args, {"old", "new", "count"}, 2) || !to_text(rt, self, &text) ||
      !to_text(rt, *bound[0], &old) || !to_text(rt, *bound[1], &with) ||
      (bound.some(2) && !bound.integer(rt, 2, &count))) {
    return false;
  }
  *out = Value::of_text(replace(rt, *text, *old, *with, count));
  return rt.check();
}

bool string_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  TextPtr text;
  if (!no_arguments(rt, "string", args) || !to_text(rt, self, &text)) return false;
  *out = Value::of_text(std::move(text));
  return true;
}

bool escape(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  TextPtr text;
  if (!no_arguments(rt, "escape", args) || !to_text(rt, self, &text)) return false;
  TextBuilder builder(rt.budget);
  if (text->markup()) {
    builder.append(*text);
  } else {
    append_escaped(*text, builder);
  }
  return rt.finish(builder, out, true);
}

bool force_escape(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  TextPtr text;
  if (!no_arguments(rt, "forceescape", args) || !to_text(rt, self, &text)) return false;
  TextBuilder builder(rt.budget);
  append_escaped(*text, builder);
  return rt.finish(builder, out, true);
}

bool safe(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  TextPtr text;
  if (!no_arguments(rt, "safe", args) || !to_text(rt, self, &text)) return false;
  TextBuilder builder(rt.budget);
  builder.append(*text);
  return rt.finish(builder, out, true);
}

bool center(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  TextPtr text;
  int64_t width = 80;
  return bound.bind(rt, "center", args, {"width"}) && to_text(rt, self, &text) && bound.integer(rt, 0, &width) &&
         pad(rt, text, width, nullptr, true, true, out);
}

bool indent(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  int64_t width = 4;
  bool first = false, blank = false;
  if (!bound.bind(rt, "indent", args, {"width", "first", "blank"})) return false;
  if (!self.is(Kind::kString)) {
    if (self.is(Kind::kUndefined)) return rt.fail_undefined(self);
    return rt.fail(std::string("indent() needs a string, not ") + type_name(self));
  }
  TextPtr text = self.text, by;
  if (bound.has(0) && bound[0]->is(Kind::kString)) {
    by = bound[0]->text;
  } else {
    if (!bound.integer(rt, 0, &width)) return false;
    TextBuilder spaces(rt.budget);
    spaces.repeat(' ', width > 0 ? static_cast<uint64_t>(width) : 0, true);
    by = spaces.finish();
  }
  bound.flag(rt, 1, &first);
  bound.flag(rt, 2, &blank);
  std::vector<Value> lines;
  if (!split_lines(rt, text, false, &lines)) return false;
  // One final line end counts as the start of another, empty, line; splitting alone would drop it.
  const bool open_end = text->empty() || [&] {
    size_t last = previous_offset(text->bytes(), text->size());
    return is_line_break(next_code_point(text->bytes(), &last));
  }();
  if (open_end) lines.push_back(rt.text(""));
  TextBuilder builder(rt.budget);
  if (first) builder.append(*by);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) builder.append("\n", true);
    if (i > 0 && (blank || !lines[i].text->empty())) builder.append(*by);
    builder.append(*lines[i].text);
  }
  return rt.finish(builder, out, text->markup());
}

bool truncate(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  int64_t length = 255, leeway = 5;
  bool kill_words = false;
  TextPtr end = rt.text("...").text;
  if (!bound.bind(rt, "truncate", args, {"length", "killwords", "end", "leeway"}) || !bound.integer(rt, 0, &length) ||
      !bound.flag(rt, 1, &kill_words) || !bound.text(rt, 2, &end) ||
      (bound.some(3) && !bound.integer(rt, 3, &leeway))) {
    return false;
  }
  if (!self.is(Kind::kString)) return rt.fail("truncate() needs a string");
  const TextPtr& text = self.text;
  const auto end_length = static_cast<int64_t>(end->length());
  if (length < end_length) return rt.fail("truncate() needs a length of at least that of its end mark");
  if (leeway < 0) return rt.fail("truncate() needs a leeway of at least 0");
  const auto size = static_cast<int64_t>(text->length());
  if (size - leeway <= length) {
    *out = self;
    return true;
  }
  size_t cut = text->offset_of(static_cast<size_t>(length - end_length));
  if (!kill_words) {
    const size_t space = text->bytes().substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  TextBuilder builder(rt.budget);
  builder.append(*text, 0, cut);
  builder.append(*end);
  return rt.finish(builder, out);
}

bool wordcount(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  TextPtr text;
  if (!no_arguments(rt, "wordcount", args) || !to_text(rt, self, &text)) return false;
  int64_t count = 0;
  bool inside = false;
  for (size_t i = 0; i < text->size();) {
    const char32_t c = next_code_point(text->bytes(), &i);
    const bool word = c >= 0x80 ? !is_space(c) && is_printable(c)
                                : c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    count += word && !inside;
    inside = word;
  }
  *out = Value::of_int(count);
  return rt.charge(text->size() / 8);
}

bool urlencode(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  TextPtr text;
  if (!no_arguments(rt, "urlencode", args)) return false;
  if (!self.is(Kind::kString) && !self.is_numeric()) return rt.fail("urlencode() needs a string or a number");
  if (!to_text(rt, self, &text)) return false;
  constexpr char kHex[] = "0123456789ABCDEF";
  TextBuilder builder(rt.budget);
  for (size_t i = 0; i < text->size() && rt.budget.ok(); ++i) {
    const auto c = static_cast<unsigned char>(text->bytes()[i]);
    const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c == '.' ||
                       c == '-' || c == '~' || c == '/';
    const char encoded[3] = {'%', kHex[c >> 4], kHex[c & 15]};
    builder.append(plain ? text->bytes().substr(i, 1) : std::string_view(encoded, 3), text->trusted_at(i));
  }
  return rt.finish(builder, out);
}

bool format_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  TextPtr format;
  if (!to_text(rt, self, &format)) return false;
  if (!args.positional.empty() && !args.keyword.empty()) {
    return rt.fail("format() cannot take positional and keyword arguments at the same time");
  }
  if (args.keyword.empty()) return format_percent(rt, format, rt.make_list(args.positional, Kind::kTuple), out);
  auto* dict = rt.make<DictObject>();
  for (const auto& [name, value] : args.keyword) {
    if (!dict->set(rt, rt.text(name), value)) return false;
  }
  return format_percent(rt, format, Value::of_object(Kind::kDict, dict), out);
}

/** int() of Python for text: white space, sign, prefix and single underscores allowed. */
bool parse_integer(std::string_view text, int64_t base, int64_t* out) {
  std::string digits;
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text.size() > 2 && text[0] == '0') {
    const char prefix = static_cast<char>(text[1] | 0x20);
    const int64_t implied = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
    if (implied != 0 && (base == implied || base == 0)) {
      base = implied;
      text.remove_prefix(text[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || text.empty() || text.back() == '_' || text[0] == '_' || text[0] == '-') return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && text[i - 1] == '_') return false;
    if (text[i] != '_') digits.push_back(text[i]);
  }
  if (negative) digits.insert(digits.begin(), '-');
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, *out, static_cast<int>(base));
  return result.ec == std::errc() && result.ptr == end;
}

std::string_view stripped(Runtime& rt, const Value& value, TextPtr* keep) {
  *keep = strip(rt, value.text, nullptr, {});
  return (*keep)->bytes();
}

bool to_double(Runtime& rt, const Value& value, double* out) {
  if (value.is_numeric()) {
    *out = value.as_double();
    return true;
  }
  TextPtr keep;
  return value.is(Kind::kString) && parse_float(stripped(rt, value, &keep), out);
}

bool value_trust(const Value& value) {
  return value.is(Kind::kString) ? value.text->all_trusted() : value.trusted;
}

bool int_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  int64_t base = 10, result = 0;
  if (!bound.bind(rt, "int", args, {"default", "base"}) || !bound.integer(rt, 1, &base)) return false;
  const Value fallback = bound.has(0) ? *bound[0] : Value::of_int(0);
  if (self.is(Kind::kUndefined)) return rt.fail_undefined(self);
  TextPtr keep;
  if (self.is_integral()) {
    *out = Value::of_int(self.as_int(), self.trusted);
    return true;
  }
  if (self.is(Kind::kString) && parse_integer(stripped(rt, self, &keep), base, &result)) {
    *out = Value::of_int(result, value_trust(self));
    return rt.check();
  }
  double number = 0;
  if (!to_double(rt, self, &number) || std::isnan(number)) {
    *out = fallback;
    return rt.check();
  }
  if (std::isinf(number)) return rt.fail("cannot convert float infinity to integer");
  if (!(std::fabs(number) < 9223372036854775808.0)) return rt.fail("an integer exceeds 64 bits");
  *out = Value::of_int(static_cast<int64_t>(number), value_trust(self));
  return true;
}

bool float_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  double number = 0;
  if (!bound.bind(rt, "float", args, {"default"})) return false;
  if (self.is(Kind::kUndefined)) return rt.fail_undefined(self);
  if (to_double(rt, self, &number)) {
    *out = Value::of_float(number, value_trust(self));
  } else {
    *out = bound.has(0) ? *bound[0] : Value::of_float(0.0);
  }
  return rt.check();
}

bool abs_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  if (!no_arguments(rt, "abs", args)) return false;
  if (self.is(Kind::kUndefined)) return rt.fail_undefined(self);
  if (!self.is_numeric()) return rt.fail(std::string("bad operand type for abs(): '") + type_name(self) + "'");
  const bool minus = self.is(Kind::kFloat) ? std::signbit(self.number) : self.as_int() < 0;
  return negate(rt, self, minus, out);
}

/** Rounds half to even at `precision` decimals, on the exact value as Python does. */
double round_decimal(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < 0) {
    if (precision < -308) return std::copysign(0.0, value);
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  const std::string digits = format_double(value, 'f', static_cast<int>(precision), false);
  double rounded = value;
  std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
  return rounded;
}

bool round_filter(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  int64_t precision = 0;
  TextPtr method = rt.text("common").text;
  if (!bound.bind(rt, "round", args, {"precision", "method"}) || !bound.integer(rt, 0, &precision) ||
      !bound.text(rt, 1, &method)) {
    return false;
  }
  const std::string_view how = method->bytes();
  if (how != "common" && how != "ceil" && how != "floor") return rt.fail("method must be common, ceil or floor");
  if (self.is(Kind::kUndefined)) return rt.fail_undefined(self);
  if (!self.is_numeric()) return rt.fail(std::string("round() needs a number, not ") + type_name(self));
  if (how == "common") {
    if (self.is_integral() && precision >= 0) {
      *out = Value::of_int(self.as_int(), self.trusted);
    } else if (self.is_integral()) {
      *out = Value::of_int(static_cast<int64_t>(round_decimal(self.as_double(), precision)), self.trusted);
    } else {
      *out = Value::of_float(round_decimal(self.number, precision), self.trusted);
    }
    return true;
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.as_double() * scale;
  const double whole = how == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  if (!std::isfinite(whole) || scale == 0) return rt.fail("round() cannot represent the result");
  *out = Value::of_float(whole / scale, self.trusted);
  return true;
}

constexpr NamedFunction kFilters[] = {
    {"abs", abs_filter},
    {"capitalize", capitalize_filter},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"float", float_filter},
    {"forceescape", force_escape},
    {"format", format_filter},
    {"indent", indent},
    {"int", int_filter},
    {"lower", lower},
    {"replace", replace_filter},
    {"round", round_filter},
    {"safe", safe},
    {"string", string_filter},
    {"title", title},
    {"tojson", filter_tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", upper},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
};

}  // namespace

FunctionTable text_filters() {
  return {kFilters, std::size(kFilters)};
}

}  // namespace banter::text::jinja
