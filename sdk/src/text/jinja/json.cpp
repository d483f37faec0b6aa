// The tojson filter: Python's json.dumps as transformers calls it.
#include <cmath>

#include "text/jinja/builtins.h"

namespace banter::text::jinja {

namespace {

void append_escape(TextBuilder& out, char32_t unit, bool trusted) {
  constexpr char kHex[] = "0123456789abcdef";
  const char escape[6] = {'\\',           'u', kHex[(unit >> 12) & 15], kHex[(unit >> 8) & 15], kHex[(unit >> 4) & 15],
                          kHex[unit & 15]};
  out.append(std::string_view(escape, 6), trusted);
}

void append_json_text(const Text& text, bool ensure_ascii, TextBuilder& out) {
  const std::string_view bytes = text.bytes();
  out.append("\"", text.all_trusted());
  size_t plain = 0;  // start of the run that needs no escape
  for (size_t i = 0; i < bytes.size() && out.budget().ok();) {
    const size_t start = i;
    const char32_t c = next_code_point(bytes, &i);
    const bool escaped = c < 0x20 || c == '"' || c == '\\' || (ensure_ascii && c > 0x7E);
    if (!escaped) continue;
    out.append(text, plain, start);
    plain = i;
    const bool trusted = text.trusted_at(start);
    constexpr std::string_view kFrom = "\"\\\n\r\t\f\b", kTo = "\"\\nrtfb";
    const size_t simple = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
    if (simple != std::string_view::npos) {
      out.append("\\", trusted);
      out.append(kTo.substr(simple, 1), trusted);
    } else if (c < 0x10000) {
      append_escape(out, c, trusted);
    } else {
      append_escape(out, 0xD800 + ((c - 0x10000) >> 10), trusted);
      append_escape(out, 0xDC00 + ((c - 0x10000) & 0x3FF), trusted);
    }
  }
  out.append(text, plain);
  out.append("\"", text.all_trusted());
}

std::string json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return format_float(value);
}

/** A separator of a container: where outside data decides how often it comes, it is none of the template's text. */
void append_mark(const Text& mark, bool trusted, TextBuilder& out) {
  if (trusted) {
    out.append(mark);
  } else {
    out.append(mark.bytes(), false);
  }
}

void append_break(const JsonStyle& style, int depth, bool trusted, TextBuilder& out) {
  if (!style.indented) return;
  out.append("\n", trusted);
  for (int i = 0; i < depth; ++i) out.append(style.indent->bytes(), trusted && style.indent->all_trusted());
}

bool append_key(Runtime& rt, const Value& key, const JsonStyle& style, TextBuilder& out) {
  switch (key.kind) {
    case Kind::kString:
      append_json_text(*key.text, style.ensure_ascii, out);
      return rt.check();
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      out.append("\"", key.trusted);
      if (!append_json(rt, key, style, out)) return false;
      out.append("\"", key.trusted);
      return rt.check();
    default:
      return rt.fail(std::string("keys must be str, int, float, bool or None, not ") + type_name(key));
  }
}

bool append_list(Runtime& rt, const ListObject& list, const JsonStyle& style, TextBuilder& out, int depth) {
  if (list.items.empty()) {
    out.append("[]", list.trusted);
    return rt.check();
  }
  out.append("[", list.trusted);
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) append_mark(*style.item_separator, list.trusted, out);
    append_break(style, depth + 1, list.trusted, out);
    if (!append_json(rt, list.items[i], style, out, depth + 1)) return false;
  }
  append_break(style, depth, list.trusted, out);
  out.append("]", list.trusted);
  return rt.check();
}

bool append_dict(Runtime& rt, const DictObject& dict, const JsonStyle& style, TextBuilder& out, int depth) {
  if (dict.entries.empty()) {
    out.append("{}", dict.trusted);
    return rt.check();
  }
  std::vector<size_t> indices;
  if (style.sort_keys) {
    std::vector<Value> keys;
    for (const auto& entry : dict.entries) keys.push_back(entry.key);
    if (!sort_indices(rt, keys, false, &indices)) return false;
  }
  out.append("{", dict.trusted);
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    const auto& entry = dict.entries[style.sort_keys ? indices[i] : i];
    if (i > 0) append_mark(*style.item_separator, dict.trusted, out);
    append_break(style, depth + 1, dict.trusted, out);
    if (!append_key(rt, entry.key, style, out)) return false;
    append_mark(*style.key_separator, dict.trusted, out);
    if (!append_json(rt, entry.value, style, out, depth + 1)) return false;
  }
  append_break(style, depth, dict.trusted, out);
  out.append("}", dict.trusted);
  return rt.check();
}

}  // namespace

bool append_json(Runtime& rt, const Value& value, const JsonStyle& style, TextBuilder& out, int depth) {
  if (depth > kMaxValueDepth) return rt.fail("values are nested too deeply for tojson");
  if (!rt.charge(1)) return false;
  switch (value.kind) {
    case Kind::kNone:
      out.append("null", value.trusted);
      return rt.check();
    case Kind::kBool:
      out.append(value.boolean ? "true" : "false", value.trusted);
      return rt.check();
    case Kind::kInt:
      out.append(std::to_string(value.integer), value.trusted);
      return rt.check();
    case Kind::kFloat:
      out.append(json_float(value.number), value.trusted);
      return rt.check();
    case Kind::kString:
      append_json_text(*value.text, style.ensure_ascii, out);
      return rt.check();
    case Kind::kList:
    case Kind::kTuple:
      return append_list(rt, *value.as<ListObject>(), style, out, depth);
    case Kind::kDict:
      return append_dict(rt, *value.as<DictObject>(), style, out, depth);
    default:
      return rt.fail(std::string("Object of type ") + type_name(value) + " is not JSON serializable");
  }
}

bool filter_tojson(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  JsonStyle style;
  if (!bound.bind(rt, "tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}) ||
      !bound.flag(rt, 0, &style.ensure_ascii) || !bound.flag(rt, 3, &style.sort_keys)) {
    return false;
  }
  if (bound.some(1)) {
    style.indented = true;
    if (bound[1]->is(Kind::kString)) {
      style.indent = bound[1]->text;
    } else {
      int64_t width = 0;
      if (!bound.integer(rt, 1, &width)) return false;
      TextBuilder spaces(rt.budget);
      spaces.repeat(' ', width > 0 ? static_cast<uint64_t>(width) : 0, true);
      style.indent = spaces.finish();
    }
  }
  style.item_separator = rt.text(style.indented ? "," : ", ").text;
  style.key_separator = rt.text(": ").text;
  if (bound.some(2)) {
    std::vector<Value> pair;
    if (!collect(rt, *bound[2], &pair)) return false;
    if (pair.size() != 2 || !pair[0].is(Kind::kString) || !pair[1].is(Kind::kString)) {
      return rt.fail("separators of tojson must be two strings");
    }
    style.item_separator = pair[0].text;
    style.key_separator = pair[1].text;
  }
  TextBuilder builder(rt.budget);
  return append_json(rt, self, style, builder) && rt.finish(builder, out);
}

}  // namespace banter::text::jinja
