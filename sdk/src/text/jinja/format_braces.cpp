// str.format() and its specifications.
#include <algorithm>
#include <cmath>

#include "text/jinja/builtins.h"

namespace banter::text::jinja {

namespace {

constexpr int kMaxPrecision = 400;

struct Spec {
  std::string fill = " ";  // one code point
  char align = '\0', sign = '-', grouping = '\0', type = '\0';
  bool alternate = false;
  int64_t width = 0;
  int precision = -1;
};

bool parse_spec(Runtime& rt, std::string_view text, Spec* spec) {
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  size_t i = 0;
  if (!text.empty()) {
    size_t after = 0;
    next_code_point(text, &after);
    if (after < text.size() && is_align(text[after])) {
      spec->fill = std::string(text.substr(0, after));
      spec->align = text[after];
      i = after + 1;
    } else if (is_align(text[0])) {
      spec->align = text[0];
      i = 1;
    }
  }
  const auto peek = [&] { return i < text.size() ? text[i] : '\0'; };
  const auto number = [&](int64_t* out) {
    for (; peek() >= '0' && peek() <= '9'; ++i) {
      *out = std::min<int64_t>(*out * 10 + (peek() - '0'), int64_t{1} << 40);
    }
  };
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec->sign = text[i++];
  if (peek() == '#') {
    spec->alternate = true;
    ++i;
  }
  if (peek() == '0') {
    if (spec->align == '\0') {
      spec->align = '=';
      spec->fill = "0";
    }
    ++i;
  }
  number(&spec->width);
  if (peek() == ',' || peek() == '_') spec->grouping = text[i++];
  if (peek() == '.') {
    ++i;
    int64_t precision = 0;
    if (peek() < '0' || peek() > '9') return rt.fail("Format specifier missing precision");
    number(&precision);
    spec->precision = static_cast<int>(std::min<int64_t>(precision, 1 << 30));
  }
  if (i < text.size()) spec->type = text[i++];
  return i == text.size() || rt.fail("Invalid format specifier");
}

std::string grouped(const std::string& digits, char separator, size_t group) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % group == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out + digits.substr(whole);
}

/** The finished `head` (sign, prefix) and `body`, padded to the width. */
void append_padded(const Spec& spec, char default_align, std::string_view head, const Text& body, bool head_trusted,
                   bool fill_trusted, TextBuilder& out) {
  const auto length = static_cast<int64_t>(head.size() + body.length());
  const int64_t missing = std::max<int64_t>(0, spec.width - length);
  const char align = spec.align == '\0' ? default_align : spec.align;
  const int64_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  const int64_t middle = align == '=' ? missing : 0;
  const Text fill(spec.fill, fill_trusted, {}, false, nullptr);
  out.repeat(fill, static_cast<uint64_t>(before));
  out.append(head, head_trusted);
  out.repeat(fill, static_cast<uint64_t>(middle));
  out.append(body);
  out.repeat(fill, static_cast<uint64_t>(missing - before - middle));
}

bool float_body(Runtime& rt, const Spec& spec, double magnitude, std::string* body) {
  if (spec.precision > kMaxPrecision) return rt.fail("precision too big");
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  switch (spec.type) {
    case '\0':
      if (spec.precision < 0) {
        *body = format_float(magnitude);
      } else {
        *body = format_double(magnitude, 'g', std::max(precision, 1), false);
        // Without a type, a float keeps a digit behind the point.
        if (body->find_first_of(".en") == std::string::npos) *body += ".0";
      }
      return true;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      *body = format_double(magnitude, spec.type, precision, spec.alternate);
      return true;
    case 'n':
      *body = format_double(magnitude, 'g', precision, spec.alternate);
      return true;
    case '%':
      *body = format_double(magnitude * 100, 'f', precision, false) + "%";
      return true;
    default:
      return rt.fail(std::string("Unknown format code '") + spec.type + "' for object of type 'float'");
  }
}

bool integer_body(Runtime& rt, const Spec& spec, int64_t value, std::string* prefix, std::string* body) {
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  if (spec.precision >= 0) return rt.fail("Precision not allowed in integer format specifier");
  int base = 10;
  switch (spec.type) {
    case '\0':
    case 'd':
    case 'n':
      break;
    case 'b':
      base = 2;
      break;
    case 'o':
      base = 8;
      break;
    case 'x':
    case 'X':
      base = 16;
      break;
    case 'c':
      if (value < 0 || value > 0x10FFFF) return rt.fail("%c arg not in range(0x110000)");
      append_utf8(body, static_cast<char32_t>(value));
      return true;
    default:
      return rt.fail(std::string("Unknown format code '") + spec.type + "' for object of type 'int'");
  }
  *body = format_digits(magnitude, base, spec.type == 'X');
  if (spec.alternate && base != 10) *prefix = std::string("0") + spec.type;
  return true;
}

bool format_number(Runtime& rt, const Value& value, Spec spec, bool spec_trusted, TextBuilder& out) {
  std::string head, prefix, body;
  const bool as_float = value.is(Kind::kFloat) ||
                        (spec.type != '\0' && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos);
  const bool negative = value.is(Kind::kFloat) ? std::signbit(value.number) : value.as_int() < 0;
  if (as_float ? !float_body(rt, spec, std::fabs(value.as_double()), &body)
               : !integer_body(rt, spec, value.as_int(), &prefix, &body)) {
    return false;
  }
  if (spec.type != 'c') head = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  head += prefix;
  if (spec.grouping != '\0') {
    const size_t group =
        spec.type != '\0' && std::string_view("boxX").find(spec.type) != std::string_view::npos ? 4 : 3;
    if (spec.grouping == ',' && group == 4) return rt.fail(std::string("Cannot specify ',' with '") + spec.type + "'.");
    body = grouped(body, spec.grouping, group);
    if (spec.align == '=' && spec.fill == "0") {  // the zeros are grouped too
      if (spec.width > 1000) return rt.fail("width too big");
      const auto wanted = spec.width - static_cast<int64_t>(head.size());
      const size_t size = std::min(body.find_first_of(".e%"), body.size());
      std::string whole = body.substr(0, size), rest = body.substr(size);
      std::erase(whole, spec.grouping);
      while (static_cast<int64_t>(grouped(whole, spec.grouping, group).size() + rest.size()) < wanted) {
        whole.insert(whole.begin(), '0');
      }
      body = grouped(whole, spec.grouping, group) + rest;
    }
  }
  const Text text(body, value.trusted, {}, false, nullptr);
  append_padded(spec, '>', head, text, value.trusted, spec_trusted, out);
  return rt.check();
}

class BraceFormatter {
 public:
  BraceFormatter(Runtime& rt, const Arguments& args) : rt_(rt), args_(args) {}

  /** Expands `format`; a specification may hold fields once more (`level` 1), not deeper. */
  bool expand(const TextPtr& format, int level, TextBuilder& out) {
    const std::string_view bytes = format->bytes();
    size_t plain = 0;
    for (size_t i = 0; i < bytes.size();) {
      if (bytes[i] != '{' && bytes[i] != '}') {
        ++i;
        continue;
      }
      out.append(*format, plain, i);
      if (i + 1 < bytes.size() && bytes[i + 1] == bytes[i] && level == 0) {
        out.append(*format, i, i + 1);
        i += 2;
      } else if (bytes[i] == '}') {
        return rt_.fail("Single '}' encountered in format string");
      } else if (!field(format, &i, level, out)) {
        return false;
      }
      plain = i;
    }
    out.append(*format, plain);
    return rt_.check();
  }

 private:
  bool field(const TextPtr& format, size_t* i, int level, TextBuilder& out) {
    const std::string_view bytes = format->bytes();
    if (level > 1) return rt_.fail("Max string recursion exceeded");
    const size_t begin = *i + 1;
    size_t end = begin, name_end = kEnd;
    int open = 1;
    for (; end < bytes.size(); ++end) {
      const char c = bytes[end];
      if (c == '{') ++open;
      if (c == '}' && --open == 0) break;
      if (name_end == kEnd && c == '[') {
        end = std::min(bytes.find(']', end), bytes.size() - 1);
      } else if (name_end == kEnd && (c == ':' || c == '!')) {
        name_end = end;
      }
    }
    if (open > 0) return rt_.fail("expected '}' before end of string");
    *i = end + 1;
    if (name_end == kEnd) name_end = end;
    Value value;
    if (!lookup(slice(rt_.budget, format, begin, name_end), &value)) return false;
    size_t rest = name_end;
    char conversion = '\0';
    if (rest < end && bytes[rest] == '!') {
      if (rest + 1 >= end) return rt_.fail("end of string while looking for conversion specifier");
      conversion = bytes[rest + 1];
      rest += 2;
      if (rest < end && bytes[rest] != ':') return rt_.fail("expected ':' after conversion specifier");
    }
    TextBuilder spec(rt_.budget);
    if (rest < end && !expand(slice(rt_.budget, format, rest + 1, end), level + 1, spec)) return false;
    const TextPtr spec_text = spec.finish();
    if (conversion != '\0') {
      TextBuilder shown(rt_.budget);
      if (conversion != 's' && conversion != 'r' && conversion != 'a') {
        return rt_.fail("Unknown conversion specifier");
      }
      if (!(conversion == 's' ? append_str(rt_, value, shown) : append_repr(rt_, value, shown))) return false;
      value = Value::of_text(shown.finish());
    }
    return format_with_spec(rt_, value, spec_text->bytes(), spec_text->all_trusted(), out);
  }

  bool argument(std::string_view name, Value* out) {
    const bool digits =
        !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (name.empty() || digits) {
      if (automatic_ != 0 && (automatic_ > 0) != name.empty()) {
        return rt_.fail("cannot mix automatic and manual field numbering");
      }
      automatic_ = name.empty() ? 1 : -1;
      const size_t index = name.empty() ? next_++ : name.size() > 9 ? kEnd : std::stoul(std::string(name));
      if (index >= args_.positional.size()) return rt_.fail("a format field has no positional argument");
      *out = args_.positional[index];
      return true;
    }
    for (const auto& [keyword, value] : args_.keyword) {
      if (keyword != name) continue;
      *out = value;
      return true;
    }
    return rt_.fail("a format field names '" + std::string(name.substr(0, 64)) + "', which was not given");
  }

  bool lookup(const TextPtr& path, Value* out) {
    const std::string_view bytes = path->bytes();
    size_t at = std::min(bytes.find_first_of(".["), bytes.size());
    if (!argument(bytes.substr(0, at), out)) return false;
    while (at < bytes.size()) {
      Value next;
      if (bytes[at] == '.') {
        const size_t end = std::min(bytes.find_first_of(".[", at + 1), bytes.size());
        if (!get_attribute(rt_, *out, bytes.substr(at + 1, end - at - 1), &next)) return false;
        at = end;
      } else if (bytes[at] == '[') {
        const size_t end = bytes.find(']', at);
        if (end == std::string_view::npos) return rt_.fail("Missing ']' in format string");
        const std::string_view key = bytes.substr(at + 1, end - at - 1);
        const bool digits = !key.empty() && key.size() < 10 &&
                            std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
        const Value index =
            digits ? Value::of_int(std::stol(std::string(key))) : Value::of_text(slice(rt_.budget, path, at + 1, end));
        if (!get_item(rt_, *out, index, &next)) return false;
        at = end + 1;
      } else {
        return rt_.fail("Only '.' or '[' may follow ']' in format field specifier");
      }
      if (next.is(Kind::kUndefined)) return rt_.fail_undefined(next);
      *out = std::move(next);
    }
    return true;
  }

  Runtime& rt_;
  const Arguments& args_;
  size_t next_ = 0;
  int automatic_ = 0;  // 1 = {}, -1 = {0}
};

}  // namespace

bool format_with_spec(Runtime& rt, const Value& value, std::string_view spec_text, bool spec_trusted,
                      TextBuilder& out) {
  if (spec_text.empty()) return append_str(rt, value, out);
  Spec spec;
  if (!parse_spec(rt, spec_text, &spec)) return false;
  if (value.is_numeric()) return format_number(rt, value, spec, spec_trusted, out);
  if (!value.is(Kind::kString)) {
    return rt.fail(std::string("unsupported format string passed to ") + type_name(value) + ".__format__");
  }
  if (spec.type != '\0' && spec.type != 's') {
    return rt.fail(std::string("Unknown format code '") + spec.type + "' for object of type 'str'");
  }
  if (spec.align == '=' && spec.fill == "0") spec.align = '<';
  if (spec.align == '=') return rt.fail("'=' alignment not allowed in string format specifier");
  if (spec.sign != '-') return rt.fail("Sign not allowed in string format specifier");
  TextPtr text = value.text;
  if (spec.precision >= 0 && static_cast<size_t>(spec.precision) < text->length()) {
    text = slice(rt.budget, text, 0, text->offset_of(static_cast<size_t>(spec.precision)));
  }
  append_padded(spec, '<', "", *text, true, spec_trusted, out);
  return rt.check();
}

bool format_braces(Runtime& rt, const TextPtr& format, const Arguments& args, Value* out) {
  TextBuilder builder(rt.budget);
  return BraceFormatter(rt, args).expand(format, 0, builder) && rt.finish(builder, out, format->markup());
}

}  // namespace banter::text::jinja
