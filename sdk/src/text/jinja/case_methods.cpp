// Methods of str about letter case and character classes.
#include <utf8proc.h>

#include "text/jinja/builtins.h"

namespace banter::text::jinja {

namespace {

enum class Class : uint8_t { kLower, kUpper, kTitle, kOtherLetter, kDigit, kNumber, kOther };

Class class_of(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LL:
      return Class::kLower;
    case UTF8PROC_CATEGORY_LU:
      return Class::kUpper;
    case UTF8PROC_CATEGORY_LT:
      return Class::kTitle;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return Class::kOtherLetter;
    case UTF8PROC_CATEGORY_ND:
      return Class::kDigit;
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return Class::kNumber;
    default:
      return Class::kOther;
  }
}

bool is_cased(Class c) {
  return c == Class::kLower || c == Class::kUpper || c == Class::kTitle;
}
bool is_letter(Class c) {
  return is_cased(c) || c == Class::kOtherLetter;
}

bool no_arguments(Runtime& rt, const Arguments& args) {
  Bound bound;
  return bound.bind(rt, "this method", args, {});
}

bool upper(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  if (!no_arguments(rt, args)) return false;
  TextBuilder builder(rt.budget);
  append_upper(builder, *self.text, 0, self.text->size());
  return rt.finish(builder, out, self.text->markup());
}

bool lower(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  if (!no_arguments(rt, args)) return false;
  TextBuilder builder(rt.budget);
  append_lower(builder, *self.text, 0, self.text->size());
  return rt.finish(builder, out, self.text->markup());
}

bool casefold(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  if (!no_arguments(rt, args)) return false;
  TextBuilder builder(rt.budget);
  for (size_t i = 0; i < self.text->size() && rt.budget.ok();) {
    const bool trusted = self.text->trusted_at(i);
    const auto c = static_cast<utf8proc_int32_t>(next_code_point(self.bytes(), &i));
    utf8proc_int32_t folded[4];
    int boundary = 0;
    const auto n = utf8proc_decompose_char(c, folded, 4, UTF8PROC_CASEFOLD, &boundary);
    if (n < 1 || n > 4) builder.append_code_point(static_cast<char32_t>(c), trusted);
    for (utf8proc_ssize_t k = 0; k < n && n <= 4; ++k) {
      builder.append_code_point(static_cast<char32_t>(folded[k]), trusted);
    }
  }
  return rt.finish(builder, out);
}

bool capitalize_method(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return no_arguments(rt, args) && capitalize(rt, *self.text, out);
}

/** str.title(): a capital behind everything that is no cased letter. */
bool title(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  if (!no_arguments(rt, args)) return false;
  TextBuilder builder(rt.budget);
  bool inside = false;
  for (size_t i = 0; i < self.text->size() && rt.budget.ok();) {
    size_t next = i;
    const bool cased = is_cased(class_of(next_code_point(self.bytes(), &next)));
    if (inside) {
      append_lower(builder, *self.text, i, next);
    } else {
      size_t at = i;
      append_title_char(builder, *self.text, &at);
    }
    inside = cased;
    i = next;
  }
  return rt.finish(builder, out, self.text->markup());
}

bool swapcase(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  if (!no_arguments(rt, args)) return false;
  TextBuilder builder(rt.budget);
  for (size_t i = 0; i < self.text->size() && rt.budget.ok();) {
    size_t next = i;
    const Class c = class_of(next_code_point(self.bytes(), &next));
    if (c == Class::kUpper) {
      append_lower(builder, *self.text, i, next);
    } else if (c == Class::kLower) {
      append_upper(builder, *self.text, i, next);
    } else {
      builder.append(*self.text, i, next);
    }
    i = next;
  }
  return rt.finish(builder, out);
}

/** All code points satisfy `accepted`, and there is at least one. */
template <class Accepted>
bool all_of(Runtime& rt, const Value& self, const Arguments& args, const Accepted& accepted, Value* out) {
  if (!no_arguments(rt, args) || !rt.charge(self.text->size() / 8)) return false;
  bool all = !self.text->empty();
  for (size_t i = 0; all && i < self.text->size();) all = accepted(next_code_point(self.bytes(), &i));
  *out = Value::of_bool(all);
  return true;
}

bool isalpha(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return all_of(
      rt, self, args, [](char32_t c) { return is_letter(class_of(c)); }, out);
}
bool isalnum(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return all_of(
      rt, self, args,
      [](char32_t c) {
        const Class k = class_of(c);
        return is_letter(k) || k == Class::kDigit || k == Class::kNumber;
      },
      out);
}
bool isdecimal(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return all_of(
      rt, self, args, [](char32_t c) { return class_of(c) == Class::kDigit; }, out);
}
bool isdigit(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return all_of(
      rt, self, args,
      [](char32_t c) {  // decimals, superscripts and subscripts
        return class_of(c) == Class::kDigit || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
               (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
      },
      out);
}
bool isnumeric(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return all_of(
      rt, self, args,
      [](char32_t c) {
        const Class k = class_of(c);
        return k == Class::kDigit || k == Class::kNumber;
      },
      out);
}
bool isspace(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return all_of(
      rt, self, args, [](char32_t c) { return is_space(c); }, out);
}
bool isprintable(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  if (!all_of(
          rt, self, args, [](char32_t c) { return is_printable(c); }, out))
    return false;
  if (self.text->empty()) *out = Value::of_bool(true);
  return true;
}
bool isascii(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  *out = Value::of_bool(self.text->ascii());
  return no_arguments(rt, args);
}

bool one_case(Runtime& rt, const Value& self, const Arguments& args, Class wanted, Value* out) {
  if (!no_arguments(rt, args) || !rt.charge(self.text->size() / 8)) return false;
  bool some = false, other = false;
  for (size_t i = 0; i < self.text->size();) {
    const Class c = class_of(next_code_point(self.bytes(), &i));
    some = some || c == wanted;
    other = other || (is_cased(c) && c != wanted);
  }
  *out = Value::of_bool(some && !other);
  return true;
}
bool islower(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return one_case(rt, self, args, Class::kLower, out);
}
bool isupper(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return one_case(rt, self, args, Class::kUpper, out);
}

bool istitle(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  if (!no_arguments(rt, args) || !rt.charge(self.text->size() / 8)) return false;
  bool inside = false, some = false, good = true;
  for (size_t i = 0; i < self.text->size();) {
    const Class c = class_of(next_code_point(self.bytes(), &i));
    if (c == Class::kUpper || c == Class::kTitle) {
      good = good && !inside;
      inside = some = true;
    } else if (c == Class::kLower) {
      good = good && inside;
      inside = some = true;
    } else {
      inside = false;
    }
  }
  *out = Value::of_bool(good && some);
  return true;
}

constexpr NamedFunction kMethods[] = {
    {"capitalize", capitalize_method},
    {"casefold", casefold},
    {"isalnum", isalnum},
    {"isalpha", isalpha},
    {"isascii", isascii},
    {"isdecimal", isdecimal},
    {"isdigit", isdigit},
    {"islower", islower},
    {"isnumeric", isnumeric},
    {"isprintable", isprintable},
    {"isspace", isspace},
    {"istitle", istitle},
    {"isupper", isupper},
    {"lower", lower},
    {"swapcase", swapcase},
    {"title", title},
    {"upper", upper},
};

}  // namespace

FunctionTable case_methods() {
  return {kMethods, std::size(kMethods)};
}

}  // namespace banter::text::jinja
