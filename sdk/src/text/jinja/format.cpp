// printf-style formatting: `format % values`.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/builtins.h"

namespace banter::text::jinja {

namespace {

constexpr int kMaxPrecision = 400;

struct Spec {
  bool alternate = false, zero = false, left = false, blank = false, plus = false;
  int64_t width = 0;
  int precision = -1;
  char type = 's';
};

class PercentFormatter {
 public:
  PercentFormatter(Runtime& rt, const TextPtr& format, const Value& values)
      : rt_(rt), format_(format), bytes_(format->bytes()), values_(values), out_(rt.budget) {}

  bool run(Value* out) {
    size_t plain = 0;
    while ((at_ = bytes_.find('%', at_)) != std::string_view::npos) {
      out_.append(*format_, plain, at_);
      const size_t begin = at_++;
      if (!conversion(begin)) return false;
      plain = at_;
    }
    out_.append(*format_, plain);
    const bool tuple = values_.is(Kind::kTuple);
    const bool mapping =
        values_.is(Kind::kDict) || values_.is(Kind::kList) || values_.is(Kind::kRange) || values_.is(Kind::kUndefined);
    const size_t given = tuple ? values_.as<ListObject>()->items.size() : 1;
    if (!mapping && used_ < given) return rt_.fail("not all arguments converted during string formatting");
    return rt_.finish(out_, out, format_->markup());
  }

 private:
  bool next_argument(Value* out) {
    if (values_.is(Kind::kTuple)) {
      const auto& items = values_.as<ListObject>()->items;
      if (used_ >= items.size()) return rt_.fail("not enough arguments for format string");
      *out = items[used_++];
      return true;
    }
    if (used_ > 0) return rt_.fail("not enough arguments for format string");
    ++used_;
    *out = values_;
    return true;
  }

  char peek() const { return at_ < bytes_.size() ? bytes_[at_] : '\0'; }

  bool star_or_number(int64_t* out) {
    if (peek() == '*') {
      ++at_;
      Value value;
      if (!next_argument(&value)) return false;
      if (!value.is_integral()) return rt_.fail("* wants int");
      *out = value.as_int();
      return true;
    }
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      *out = *out * 10 + (peek() - '0');
      if (*out > (int64_t{1} << 40)) return rt_.fail("width too big");
    }
    return true;
  }

  bool key(Value* out, bool* has) {
    if (peek() != '(') return true;
    if (!values_.is(Kind::kDict)) return rt_.fail("format requires a mapping");
    const size_t begin = ++at_;
    for (int open = 1; open > 0; ++at_) {
      if (at_ >= bytes_.size()) return rt_.fail("incomplete format key");
      open += bytes_[at_] == '(' ? 1 : bytes_[at_] == ')' ? -1 : 0;
    }
    const Value name = Value::of_text(slice(rt_.budget, format_, begin, at_ - 1));
    Value* found = nullptr;
    if (!values_.as<DictObject>()->find(rt_, name, &found)) return false;
    if (found == nullptr) return rt_.fail("no key '" + std::string(name.bytes().substr(0, 64)) + "' to format");
    *out = *found;
    *has = true;
    ++used_;
    return true;
  }

  bool conversion(size_t begin) {
    Spec spec;
    Value value;
    bool has_value = false;
    if (!key(&value, &has_value)) return false;
    for (bool more = true; more;) {
      switch (peek()) {
        case '#':
          spec.alternate = true;
          break;
        case '0':
          spec.zero = true;
          break;
        case '-':
          spec.left = true;
          break;
        case ' ':
          spec.blank = true;
          break;
        case '+':
          spec.plus = true;
          break;
        default:
          more = false;
          break;
      }
      if (more) ++at_;
    }
    if (!star_or_number(&spec.width)) return false;
    if (spec.width < 0) {
      spec.left = true;
      spec.width = -spec.width;
    }
    if (peek() == '.') {
      ++at_;
      int64_t precision = 0;
      if (!star_or_number(&precision)) return false;
      precision = std::max<int64_t>(precision, 0);
      spec.precision = static_cast<int>(std::min<int64_t>(precision, 1 << 30));
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    if (at_ >= bytes_.size()) return rt_.fail("incomplete format");
    spec.type = bytes_[at_++];
    if (spec.type == '%') {
      out_.append("%", format_->trusted_at(begin));
      return rt_.check();
    }
    constexpr std::string_view kTypes = "sracdiuoxXeEfFgG";
    if (kTypes.find(spec.type) == std::string_view::npos) {
      return rt_.fail("unsupported format character");
    }
    if (!has_value && !next_argument(&value)) return false;
    return spec.type == 's' || spec.type == 'r' || spec.type == 'a' || spec.type == 'c' ? text(spec, value)
                                                                                        : number(spec, value);
  }

  bool text(const Spec& spec, const Value& value) {
    TextBuilder part(rt_.budget);
    if (spec.type == 'c') {
      if (value.is(Kind::kString) && value.text->length() == 1) {
        part.append(*value.text);
      } else if (value.is_integral() && value.as_int() >= 0 && value.as_int() <= 0x10FFFF) {
        part.append_code_point(static_cast<char32_t>(value.as_int()), value.trusted);
      } else {
        return rt_.fail("%c requires int or char");
      }
    } else if (!(spec.type == 's' ? append_str(rt_, value, part) : append_repr(rt_, value, part))) {
      return false;
    }
    TextPtr shown = part.finish();
    if (spec.precision >= 0 && spec.type != 'c' && static_cast<size_t>(spec.precision) < shown->length()) {
      shown = slice(rt_.budget, shown, 0, shown->offset_of(static_cast<size_t>(spec.precision)));
    }
    const auto missing = spec.width - static_cast<int64_t>(shown->length());
    if (missing > 0 && !spec.left) out_.repeat(' ', static_cast<uint64_t>(missing), format_->all_trusted());
    out_.append(*shown);
    if (missing > 0 && spec.left) out_.repeat(' ', static_cast<uint64_t>(missing), format_->all_trusted());
    return rt_.check();
  }

  bool number(Spec spec, const Value& value) {
    std::string prefix, digits;
    bool negative = false;
    if (value.is(Kind::kUndefined)) return rt_.fail_undefined(value);
    if (!value.is_numeric()) {
      return rt_.fail(std::string("%") + spec.type + " format: a number is required, not " + type_name(value));
    }
    if (std::string_view("eEfFgG").find(spec.type) != std::string_view::npos) {
      const double magnitude = std::fabs(value.as_double());
      negative = std::signbit(value.as_double());
      if (spec.precision > kMaxPrecision) return rt_.fail("precision too big");
      digits = format_double(magnitude, spec.type, spec.precision < 0 ? 6 : spec.precision, spec.alternate);
      if (!std::isfinite(magnitude)) spec.zero = false;
    } else {
      int64_t integer = 0;
      if (value.is(Kind::kFloat)) {
        if (std::string_view("oxX").find(spec.type) != std::string_view::npos) {
          return rt_.fail(std::string("%") + spec.type + " format: an integer is required, not float");
        }
        if (!(std::fabs(value.number) < 9.2e18)) return rt_.fail("an integer exceeds 64 bits");
        integer = static_cast<int64_t>(value.number);
      } else {
        integer = value.as_int();
      }
      negative = integer < 0;
      const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(integer) : static_cast<uint64_t>(integer);
      const int base = spec.type == 'o' ? 8 : (spec.type | 0x20) == 'x' ? 16 : 10;
      digits = format_digits(magnitude, base, spec.type == 'X');
      if (spec.precision > kMaxPrecision) return rt_.fail("precision too big");
      if (spec.precision > static_cast<int>(digits.size())) {
        digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
      }
      if (spec.alternate && base != 10) prefix = std::string("0") + spec.type;
    }
    const char* sign = negative ? "-" : spec.plus ? "+" : spec.blank ? " " : "";
    const std::string head = sign + prefix;
    const auto missing = spec.width - static_cast<int64_t>(head.size() + digits.size());
    const uint64_t fill = missing > 0 ? static_cast<uint64_t>(missing) : 0;
    const bool zeros = spec.zero && !spec.left;
    if (!spec.left && !zeros) out_.repeat(' ', fill, format_->all_trusted());
    out_.append(head, value.trusted);
    if (zeros) out_.repeat('0', fill, format_->all_trusted() && value.trusted);
    out_.append(digits, value.trusted);
    if (spec.left) out_.repeat(' ', fill, format_->all_trusted());
    return rt_.check();
  }

  Runtime& rt_;
  const TextPtr& format_;
  const std::string_view bytes_;
  const Value& values_;
  TextBuilder out_;
  size_t at_ = 0;
  size_t used_ = 0;
};

}  // namespace

std::string format_digits(uint64_t magnitude, int base, bool upper) {
  char digits[72];
  std::string text(digits, std::to_chars(digits, digits + sizeof(digits), magnitude, base).ptr);
  if (upper) std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'a' ? c - 32 : c; });
  return text;
}

std::string format_double(double value, char style, int precision, bool alternate) {
  const char lower = static_cast<char>(style | 0x20);
  std::string text;
  if (std::isnan(value) || std::isinf(value)) {
    text = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  } else {
    char digits[kMaxPrecision + 400];
    const auto format = lower == 'e'   ? std::chars_format::scientific
                        : lower == 'f' ? std::chars_format::fixed
                                       : std::chars_format::general;
    precision = std::clamp(precision, 0, kMaxPrecision);
    text.assign(digits, std::to_chars(digits, digits + sizeof(digits), value, format, precision).ptr);
    if (alternate && precision == 0 && lower != 'g') text.insert(std::min(text.find('e'), text.size()), ".");
  }
  if (style != lower) {
    std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  }
  return text;
}

bool format_percent(Runtime& rt, const TextPtr& format, const Value& values, Value* out) {
  return PercentFormatter(rt, format, values).run(out);
}

}  // namespace banter::text::jinja
