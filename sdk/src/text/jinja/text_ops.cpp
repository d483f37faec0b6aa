// The string algorithms behind methods and filters.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/search.h"

namespace banter::text::jinja {

namespace {

bool in_set(std::string_view chars, char32_t c) {
  for (size_t i = 0; i < chars.size();) {
    if (next_code_point(chars, &i) == c) return true;
  }
  return false;
}

Value piece(Runtime& rt, const TextPtr& text, size_t begin, size_t end) {
  return Value::of_text(slice(rt.budget, text, begin, end));
}

/** Splits at white space; from the right where wanted. Pieces are offsets [begin, end). */
bool split_words(Runtime& rt, const TextPtr& text, int64_t limit, bool from_right, std::vector<Value>* out) {
  const std::string_view bytes = text->bytes();
  struct Word {
    size_t begin, end;
  };
  std::vector<Word> words;
  for (size_t i = 0; i < bytes.size();) {
    const size_t start = i;
    if (is_space(next_code_point(bytes, &i))) continue;
    if (!words.empty() && words.back().end == start) {
      words.back().end = i;
    } else {
      if (!rt.budget.fits(words.size() * sizeof(Word)) || !rt.charge(1)) return rt.check();
      words.push_back({start, i});
    }
  }
  if (limit >= 0 && words.size() > static_cast<uint64_t>(limit)) {
    const auto keep = static_cast<size_t>(limit);
    if (from_right) {
      const size_t rest = words.size() - keep;
      words[0].end = words[rest - 1].end;
      words[0].begin = 0;  // the unsplit rest keeps its leading white space
      words.erase(words.begin() + 1, words.begin() + static_cast<std::ptrdiff_t>(rest));
    } else {
      words[keep].end = bytes.size();
      words.resize(keep + 1);
    }
  }
  for (const Word& word : words) out->push_back(piece(rt, text, word.begin, word.end));
  return rt.check();
}

}  // namespace

TextPtr strip(Runtime& rt, const TextPtr& text, const Text* chars, StripSides sides) {
  const std::string_view bytes = text->bytes();
  const auto stripped = [&](char32_t c) { return chars == nullptr ? is_space(c) : in_set(chars->bytes(), c); };
  const uint64_t set_size = chars == nullptr ? 1 : 1 + chars->size() / 8;
  size_t begin = 0, end = bytes.size();
  while (sides.left && begin < end && rt.budget.charge(set_size)) {
    size_t next = begin;
    if (!stripped(next_code_point(bytes, &next))) break;
    begin = next;
  }
  while (sides.right && end > begin && rt.budget.charge(set_size)) {
    const size_t start = previous_offset(bytes, end);
    size_t next = start;
    if (!stripped(next_code_point(bytes, &next))) break;
    end = start;
  }
  if (begin == end) {
    TextBuilder empty(rt.budget);
    return empty.finish(text->markup());
  }
  return slice(rt.budget, text, begin, end);
}

TextPtr replace(Runtime& rt, const Text& text, const Text& old, const Text& with, int64_t count) {
  const std::string_view bytes = text.bytes();
  TextBuilder out(rt.budget);
  size_t from = 0;
  uint64_t left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  if (old.empty()) {  // matches before every code point and at the end
    while (left > 0 && rt.budget.ok()) {
      out.append(with);
      --left;
      if (from >= bytes.size()) break;
      size_t next = from;
      next_code_point(bytes, &next);
      out.append(text, from, next);
      from = next;
    }
  } else {
    Searcher searcher(rt.budget, old.bytes());
    while (left > 0 && rt.budget.ok()) {
      const size_t at = searcher.find(bytes, from);
      if (at == std::string_view::npos) break;
      out.append(text, from, at);
      out.append(with);
      from = at + old.size();
      --left;
    }
  }
  if (from < bytes.size()) out.append(text, from);
  return out.finish(text.markup());
}

bool split(Runtime& rt, const TextPtr& text, const Text* separator, int64_t limit, bool from_right,
           std::vector<Value>* out) {
  if (separator == nullptr) return split_words(rt, text, limit, from_right, out);
  if (separator->empty()) return rt.fail("empty separator");
  const std::string_view bytes = text->bytes(), mark = separator->bytes();
  Searcher searcher(rt.budget, mark, from_right);
  uint64_t left = limit < 0 ? UINT64_MAX : static_cast<uint64_t>(limit);
  if (from_right) {
    size_t end = bytes.size();
    while (left > 0) {
      const size_t at = searcher.find_last(bytes, end);
      if (at == std::string_view::npos) break;
      out->push_back(piece(rt, text, at + mark.size(), end));
      if (!rt.budget.fits(out->size() * sizeof(Value)) || !rt.charge(1)) return rt.check();
      end = at;
      --left;
    }
    out->push_back(piece(rt, text, 0, end));
    std::reverse(out->begin(), out->end());
    return rt.check();
  }
  size_t from = 0;
  while (left > 0) {
    const size_t at = searcher.find(bytes, from);
    if (at == std::string_view::npos) break;
    out->push_back(piece(rt, text, from, at));
    if (!rt.budget.fits(out->size() * sizeof(Value)) || !rt.charge(1)) return rt.check();
    from = at + mark.size();
    --left;
  }
  out->push_back(piece(rt, text, from, bytes.size()));
  return rt.check();
}

bool split_lines(Runtime& rt, const TextPtr& text, bool keep_ends, std::vector<Value>* out) {
  const std::string_view bytes = text->bytes();
  size_t begin = 0;
  for (size_t i = 0; i < bytes.size();) {
    const size_t at = i;
    const char32_t c = next_code_point(bytes, &i);
    if (!is_line_break(c)) continue;
    if (c == '\r' && i < bytes.size() && bytes[i] == '\n') ++i;
    out->push_back(piece(rt, text, begin, keep_ends ? i : at));
    if (!rt.budget.fits(out->size() * sizeof(Value)) || !rt.charge(1)) return rt.check();
    begin = i;
  }
  if (begin < bytes.size()) out->push_back(piece(rt, text, begin, bytes.size()));
  return rt.check();
}

bool capitalize(Runtime& rt, const Text& text, Value* out) {
  TextBuilder builder(rt.budget);
  size_t offset = 0;
  if (!text.empty()) append_title_char(builder, text, &offset);
  append_lower(builder, text, offset, text.size());
  return rt.finish(builder, out, text.markup());
}

bool pad(Runtime& rt, const TextPtr& text, int64_t width, const Text* fill, bool left, bool right, Value* out) {
  if (fill != nullptr && fill->length() != 1) {
    return rt.fail("the fill character must be exactly one character long");
  }
  const auto length = static_cast<int64_t>(text->length());
  if (width <= length) {
    *out = Value::of_text(text);
    return true;
  }
  const int64_t total = width - length;
  // Python's center gives the odd place to the left only for odd widths.
  const int64_t before = left && right ? total / 2 + (total & width & 1) : left ? total : 0;
  TextBuilder builder(rt.budget);
  const auto add = [&](int64_t count) {
    if (fill == nullptr) {
      builder.repeat(' ', static_cast<uint64_t>(count), true);
    } else {
      builder.repeat(*fill, static_cast<uint64_t>(count));
    }
  };
  add(before);
  builder.append(*text);
  add(total - before);
  return rt.finish(builder, out, text->markup());
}

}  // namespace banter::text::jinja
