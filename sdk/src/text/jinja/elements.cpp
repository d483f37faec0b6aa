// Iteration, length and the printed forms of values.
#include <charconv>
#include <cmath>
#include <system_error>

#include "text/jinja/runtime.h"

namespace banter::text::jinja {

namespace {

Value pair_of(Runtime& rt, const DictObject::Entry& entry) {
  return rt.make_list({entry.key, entry.value}, Kind::kTuple);
}

bool append_items(Runtime& rt, const std::vector<Value>& items, bool trusted, TextBuilder& out, int depth) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ", trusted);
    if (!append_repr(rt, items[i], out, depth + 1)) return false;
  }
  return true;
}

bool append_dict(Runtime& rt, const DictObject& dict, TextBuilder& out, int depth) {
  out.append("{", dict.trusted);
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out.append(", ", dict.trusted);
    if (!append_repr(rt, dict.entries[i].key, out, depth + 1)) return false;
    out.append(": ", dict.trusted);
    if (!append_repr(rt, dict.entries[i].value, out, depth + 1)) return false;
  }
  out.append("}", dict.trusted);
  return true;
}

bool append_view(Runtime& rt, const Value& view, TextBuilder& out, int depth) {
  const bool trusted = view.as<DictViewObject>()->dict->trusted;
  std::vector<Value> items;
  if (!collect(rt, view, &items)) return false;
  out.append(std::string(type_name(view)) + "([", trusted);
  if (!append_items(rt, items, trusted, out, depth)) return false;
  out.append("])", trusted);
  return true;
}

void append_hex(TextBuilder& out, char32_t c, bool trusted) {
  constexpr char kDigits[] = "0123456789abcdef";
  const int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  std::string escape = digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) escape.push_back(kDigits[(c >> shift) & 15]);
  out.append(escape, trusted);
}

void append_quoted(const Text& text, TextBuilder& out) {
  const std::string_view bytes = text.bytes();
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  const std::string_view mark(&quote, 1);
  out.append(mark, text.all_trusted());
  for (size_t i = 0; i < bytes.size() && out.budget().ok();) {
    const size_t start = i;
    const bool trusted = text.trusted_at(i);
    const char32_t c = next_code_point(bytes, &i);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out.append("\\", trusted);
      out.append(bytes.substr(start, 1), trusted);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", trusted);
    } else if (!is_printable(c)) {
      append_hex(out, c, trusted);
    } else {
      out.append(bytes.substr(start, i - start), trusted);
    }
  }
  out.append(mark, text.all_trusted());
}

std::string plain_name(const Value& value) {
  switch (value.kind) {
    case Kind::kIterator:
      return "<generator object>";
    case Kind::kFunction:
      return "<function " + std::string(value.function->name) + ">";
    case Kind::kMethod:
      return "<built-in method " + std::string(value.as<MethodObject>()->method->name) + ">";
    case Kind::kLoop:
      return "<LoopContext>";
    default:
      return std::string("<") + type_name(value) + ">";
  }
}

}  // namespace

bool Elements::start(Runtime& rt, const Value& source) {
  source_ = source;
  position_ = 0;
  switch (source.kind) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kIterator:
    case Kind::kDictView:
      return true;
    default:
      return rt.fail(std::string("'") + type_name(source) + "' object is not iterable");
  }
}

bool Elements::next(Runtime& rt, Value* out, bool* done) {
  if (!rt.charge(1)) return false;
  *done = false;
  switch (source_.kind) {
    case Kind::kString: {
      if (position_ >= source_.text->size()) break;
      const size_t begin = position_;
      next_code_point(source_.bytes(), &position_);
      TextBuilder builder(rt.budget);
      builder.append(*source_.text, begin, position_);
      return rt.finish(builder, out);
    }
    case Kind::kList:
    case Kind::kTuple:
      if (position_ >= source_.as<ListObject>()->items.size()) break;
      *out = source_.as<ListObject>()->items[position_++];
      return true;
    case Kind::kDict:
      if (position_ >= source_.as<DictObject>()->entries.size()) break;
      *out = source_.as<DictObject>()->entries[position_++].key;
      return true;
    case Kind::kRange: {
      const auto* range = source_.as<RangeObject>();
      if (position_ >= range->size()) break;
      *out = Value::of_int(range->at(position_++), range->trusted);
      return true;
    }
    case Kind::kIterator: {
      auto* iterator = source_.as<IteratorObject>();
      if (iterator->cursor >= iterator->items.size()) break;
      *out = iterator->items[iterator->cursor++];
      return true;
    }
    case Kind::kDictView: {
      const auto* view = source_.as<DictViewObject>();
      if (position_ >= view->dict->entries.size()) break;
      const auto& entry = view->dict->entries[position_++];
      *out = view->what == DictViewObject::What::kKeys     ? entry.key
             : view->what == DictViewObject::What::kValues ? entry.value
                                                           : pair_of(rt, entry);
      return true;
    }
    default:
      break;
  }
  *done = true;
  return true;
}

bool length_of(Runtime&, const Value& value, size_t* out, bool* known) {
  *known = true;
  switch (value.kind) {
    case Kind::kUndefined:
      *out = 0;
      return true;
    case Kind::kString:
      *out = value.text->length();
      return true;
    case Kind::kList:
    case Kind::kTuple:
      *out = value.as<ListObject>()->items.size();
      return true;
    case Kind::kDict:
      *out = value.as<DictObject>()->entries.size();
      return true;
    case Kind::kDictView:
      *out = value.as<DictViewObject>()->dict->entries.size();
      return true;
    case Kind::kRange:
      *out = value.as<RangeObject>()->size();
      return true;
    default:
      *known = false;
      return true;
  }
}

bool collect(Runtime& rt, const Value& source, std::vector<Value>* out) {
  Elements elements;
  if (!elements.start(rt, source)) return false;
  while (true) {
    Value item;
    bool done = false;
    if (!elements.next(rt, &item, &done)) return false;
    if (done) return true;
    // The list that is made of these counts them for good; asked here so that they cannot pile up first.
    if (!rt.budget.fits((out->size() + 1) * sizeof(Value))) return rt.check();
    out->push_back(std::move(item));
  }
}

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value, std::chars_format::scientific).ptr;
  const std::string_view scientific(digits, static_cast<size_t>(end - digits));
  const size_t e = scientific.find('e');
  int exponent = 0;
  const size_t sign = scientific[e + 1] == '+' ? 2 : 1;
  std::from_chars(scientific.data() + e + sign, end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  char fixed[40];
  const auto fixed_end = std::to_chars(fixed, fixed + sizeof(fixed), value, std::chars_format::fixed).ptr;
  std::string text(fixed, fixed_end);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

bool append_repr(Runtime& rt, const Value& value, TextBuilder& out, int depth) {
  if (depth > kMaxValueDepth) return rt.fail("values are nested too deeply to be printed");
  if (!rt.charge(1)) return false;
  switch (value.kind) {
    case Kind::kUndefined:
      out.append("Undefined", true);
      break;
    case Kind::kNone:
      out.append("None", value.trusted);
      break;
    case Kind::kBool:
      out.append(value.boolean ? "True" : "False", value.trusted);
      break;
    case Kind::kInt:
      out.append(std::to_string(value.integer), value.trusted);
      break;
    case Kind::kFloat:
      out.append(format_float(value.number), value.trusted);
      break;
    case Kind::kString:
      if (value.text->markup()) out.append("Markup(", true);
      append_quoted(*value.text, out);
      if (value.text->markup()) out.append(")", true);
      break;
    case Kind::kList: {
      const auto* list = value.as<ListObject>();
      out.append("[", list->trusted);
      if (!append_items(rt, list->items, list->trusted, out, depth)) return false;
      out.append("]", list->trusted);
      break;
    }
    case Kind::kTuple: {
      const auto* list = value.as<ListObject>();
      out.append("(", list->trusted);
      if (!append_items(rt, list->items, list->trusted, out, depth)) return false;
      out.append(list->items.size() == 1 ? ",)" : ")", list->trusted);
      break;
    }
    case Kind::kDict:
      if (!append_dict(rt, *value.as<DictObject>(), out, depth)) return false;
      break;
    case Kind::kRange: {
      const auto* range = value.as<RangeObject>();
      std::string text = "range(" + std::to_string(range->start) + ", " + std::to_string(range->stop);
      if (range->step != 1) text += ", " + std::to_string(range->step);
      out.append(text + ")", range->trusted);
      break;
    }
    case Kind::kDictView:
      if (!append_view(rt, value, out, depth)) return false;
      break;
    case Kind::kNamespace:
      out.append("<Namespace ", true);
      if (!append_dict(rt, value.as<NamespaceObject>()->attributes, out, depth)) return false;
      out.append(">", true);
      break;
    default:
      out.append(plain_name(value), true);
      break;
  }
  return rt.check();
}

bool append_str(Runtime& rt, const Value& value, TextBuilder& out) {
  if (value.is(Kind::kUndefined)) return rt.check();
  if (!value.is(Kind::kString)) return append_repr(rt, value, out);
  out.append(*value.text);
  return rt.check();
}

bool to_text(Runtime& rt, const Value& value, TextPtr* out) {
  if (value.is(Kind::kString)) {
    *out = value.text;
    return true;
  }
  TextBuilder builder(rt.budget);
  if (!append_str(rt, value, builder)) return false;
  *out = builder.finish();
  return rt.check();
}

}  // namespace banter::text::jinja
