// Methods of str: searching, splitting, joining, filling.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/search.h"

namespace banter::text::jinja {

namespace {

bool strip_method(Runtime& rt, const Value& self, const Arguments& args, StripSides sides, Value* out) {
  Bound bound;
  TextPtr chars;
  if (!bound.bind(rt, "strip", args, {"chars"}) || (bound.some(0) && !bound.text(rt, 0, &chars))) return false;
  *out = Value::of_text(strip(rt, self.text, chars.get(), sides));
  return rt.check();
}
bool strip_both(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return strip_method(rt, self, args, {}, out);
}
bool lstrip(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return strip_method(rt, self, args, {true, false}, out);
}
bool rstrip(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return strip_method(rt, self, args, {false, true}, out);
}

bool split_method(Runtime& rt, const Value& self, const Arguments& args, bool from_right, Value* out) {
  Bound bound;
  TextPtr separator;
  int64_t limit = -1;
  std::vector<Value> parts;
  if (!bound.bind(rt, "split", args, {"sep", "maxsplit"}) || (bound.some(0) && !bound.text(rt, 0, &separator)) ||
      !bound.integer(rt, 1, &limit) || !split(rt, self.text, separator.get(), limit, from_right, &parts)) {
    return false;
  }
  *out = rt.make_list(std::move(parts));
  return rt.check();
}
bool split_left(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return split_method(rt, self, args, false, out);
}
bool rsplit(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return split_method(rt, self, args, true, out);
}

bool splitlines(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  bool keep = false;
  std::vector<Value> lines;
  if (!bound.bind(rt, "splitlines", args, {"keepends"}) || !bound.flag(rt, 0, &keep) ||
      !split_lines(rt, self.text, keep, &lines)) {
    return false;
  }
  *out = rt.make_list(std::move(lines));
  return rt.check();
}

bool replace_method(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  TextPtr old, with;
  int64_t count = -1;
  if (!bound.bind(rt, "replace", args, {"old", "new", "count"}, 2) || !bound.text(rt, 0, &old) ||
      !bound.text(rt, 1, &with) || !bound.integer(rt, 2, &count)) {
    return false;
  }
  *out = Value::of_text(replace(rt, *self.text, *old, *with, count));
  return rt.check();
}

/** The part [start, end) in code points that optional arguments 1 and 2 name; `*begin` > `*end` where it is void. */
bool window(Runtime& rt, const Bound& bound, const Text& text, size_t* begin, size_t* end) {
  const auto length = static_cast<int64_t>(text.length());
  int64_t from = 0, to = length;
  if ((bound.some(1) && !bound.integer(rt, 1, &from)) || (bound.some(2) && !bound.integer(rt, 2, &to))) return false;
  if (from < 0) from = std::max<int64_t>(0, from + length);
  if (to < 0) to = std::max<int64_t>(0, to + length);
  to = std::min(to, length);
  *begin = from > length ? kEnd : text.offset_of(static_cast<size_t>(from));
  *end = text.offset_of(static_cast<size_t>(to));
  return rt.charge(text.ascii() ? 1 : text.size() / 16);
}

bool affix(Runtime& rt, const Value& self, const Arguments& args, bool at_end, Value* out) {
  Bound bound;
  size_t begin = 0, end = 0;
  const char* name = at_end ? "endswith" : "startswith";
  if (!bound.bind(rt, name, args, {"prefix", "start", "end"}, 1) || !window(rt, bound, *self.text, &begin, &end)) {
    return false;
  }
  std::vector<Value> candidates;
  if (bound[0]->is(Kind::kTuple)) {
    candidates = bound[0]->as<ListObject>()->items;
  } else {
    candidates.push_back(*bound[0]);
  }
  *out = Value::of_bool(false);
  for (const Value& candidate : candidates) {
    if (candidate.is(Kind::kUndefined)) return rt.fail_undefined(candidate);
    if (!candidate.is(Kind::kString)) {
      return rt.fail(std::string(name) + " first arg must be str or a tuple of str, not " + type_name(candidate));
    }
    if (begin > end) continue;
    const std::string_view part = self.bytes().substr(begin, end - begin), wanted = candidate.bytes();
    if (!rt.charge(wanted.size() / 64)) return false;
    if (at_end ? part.ends_with(wanted) : part.starts_with(wanted)) *out = Value::of_bool(true);
  }
  return rt.charge(candidates.size());
}
bool startswith(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return affix(rt, self, args, false, out);
}
bool endswith(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return affix(rt, self, args, true, out);
}

bool find_method_of(Runtime& rt, const Value& self, const Arguments& args, bool last, bool must, Value* out) {
  Bound bound;
  TextPtr wanted;
  size_t begin = 0, end = 0;
  if (!bound.bind(rt, must ? "index" : "find", args, {"sub", "start", "end"}, 1) || !bound.text(rt, 0, &wanted) ||
      !window(rt, bound, *self.text, &begin, &end) || !rt.charge(self.text->size() / 64)) {
    return false;
  }
  size_t at = std::string_view::npos;
  if (begin <= end) {
    const std::string_view part = self.bytes().substr(0, end);
    Searcher searcher(rt.budget, wanted->bytes(), last);
    at = last ? searcher.find_last(part) : searcher.find(part, begin);
    if (!rt.check()) return false;
    if (at != std::string_view::npos && at < begin) at = std::string_view::npos;
  }
  if (at == std::string_view::npos) {
    if (must) return rt.fail("substring not found");
    *out = Value::of_int(-1);
    return true;
  }
  *out = Value::of_int(static_cast<int64_t>(count_code_points(self.bytes().substr(0, at))));
  return true;
}
bool find(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return find_method_of(rt, self, args, false, false, out);
}
bool rfind(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return find_method_of(rt, self, args, true, false, out);
}
bool index(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return find_method_of(rt, self, args, false, true, out);
}
bool rindex(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return find_method_of(rt, self, args, true, true, out);
}

bool count(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  TextPtr wanted;
  size_t begin = 0, end = 0;
  if (!bound.bind(rt, "count", args, {"sub", "start", "end"}, 1) || !bound.text(rt, 0, &wanted) ||
      !window(rt, bound, *self.text, &begin, &end) || !rt.charge(self.text->size() / 8)) {
    return false;
  }
  int64_t found = 0;
  if (begin <= end) {
    const std::string_view part = self.bytes().substr(begin, end - begin);
    if (wanted->empty()) {
      found = static_cast<int64_t>(count_code_points(part)) + 1;
    } else {
      Searcher searcher(rt.budget, wanted->bytes());
      for (size_t at = 0; (at = searcher.find(part, at)) != std::string_view::npos; at += wanted->size()) {
        ++found;
      }
    }
  }
  *out = Value::of_int(found);
  return rt.check();
}

bool join(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  Elements elements;
  if (!bound.bind(rt, "join", args, {"iterable"}, 1) || !elements.start(rt, *bound[0])) return false;
  TextBuilder builder(rt.budget);
  for (size_t i = 0;; ++i) {
    Value item;
    bool done = false;
    if (!elements.next(rt, &item, &done)) return false;
    if (done) break;
    if (!item.is(Kind::kString)) {
      return rt.fail("sequence item " + std::to_string(i) + ": expected str instance, " + type_name(item) + " found");
    }
    if (i > 0) builder.append(*self.text);
    builder.append(*item.text);
  }
  return rt.finish(builder, out, self.text->markup());
}

bool pad_method(Runtime& rt, const Value& self, const Arguments& args, bool left, bool right, Value* out) {
  Bound bound;
  int64_t width = 0;
  TextPtr fill;
  return bound.bind(rt, "padding", args, {"width", "fillchar"}, 1) && bound.integer(rt, 0, &width) &&
         bound.text(rt, 1, &fill) && pad(rt, self.text, width, fill.get(), left, right, out);
}
bool center(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return pad_method(rt, self, args, true, true, out);
}
bool ljust(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return pad_method(rt, self, args, false, true, out);
}
bool rjust(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return pad_method(rt, self, args, true, false, out);
}

bool zfill(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  int64_t width = 0;
  if (!bound.bind(rt, "zfill", args, {"width"}, 1) || !bound.integer(rt, 0, &width)) return false;
  const Text& text = *self.text;
  const int64_t missing = width - static_cast<int64_t>(text.length());
  const size_t sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+') ? 1 : 0;
  TextBuilder builder(rt.budget);
  builder.append(text, 0, sign);
  if (missing > 0) builder.repeat('0', static_cast<uint64_t>(missing), true);
  builder.append(text, sign);
  return rt.finish(builder, out);
}

bool partition_method(Runtime& rt, const Value& self, const Arguments& args, bool from_right, Value* out) {
  Bound bound;
  TextPtr mark;
  if (!bound.bind(rt, "partition", args, {"sep"}, 1) || !bound.text(rt, 0, &mark)) return false;
  if (mark->empty()) return rt.fail("empty separator");
  const std::string_view bytes = self.bytes();
  Searcher searcher(rt.budget, mark->bytes(), from_right);
  const size_t at = from_right ? searcher.find_last(bytes) : searcher.find(bytes);
  std::vector<Value> parts(3, rt.text(""));
  if (at == std::string_view::npos) {
    parts[from_right ? 2 : 0] = self;
  } else {
    parts[0] = Value::of_text(slice(rt.budget, self.text, 0, at));
    parts[1] = Value::of_text(mark);
    parts[2] = Value::of_text(slice(rt.budget, self.text, at + mark->size(), bytes.size()));
  }
  *out = rt.make_list(std::move(parts), Kind::kTuple);
  return rt.charge(bytes.size() / 32);
}
bool partition(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return partition_method(rt, self, args, false, out);
}
bool rpartition(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return partition_method(rt, self, args, true, out);
}

bool removeprefix(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  TextPtr prefix;
  if (!bound.bind(rt, "removeprefix", args, {"prefix"}, 1) || !bound.text(rt, 0, &prefix)) return false;
  if (!rt.charge(prefix->size() / 64)) return false;
  const bool has = self.bytes().starts_with(prefix->bytes());
  *out = Value::of_text(slice(rt.budget, self.text, has ? prefix->size() : 0, self.text->size()));
  return rt.check();
}

bool removesuffix(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  TextPtr suffix;
  if (!bound.bind(rt, "removesuffix", args, {"suffix"}, 1) || !bound.text(rt, 0, &suffix)) return false;
  if (!rt.charge(suffix->size() / 64)) return false;
  const bool has = self.bytes().ends_with(suffix->bytes());
  *out = Value::of_text(slice(rt.budget, self.text, 0, self.text->size() - (has ? suffix->size() : 0)));
  return rt.check();
}

bool expandtabs(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  Bound bound;
  int64_t size = 8, column = 0;
  if (!bound.bind(rt, "expandtabs", args, {"tabsize"}) || !bound.integer(rt, 0, &size)) return false;
  TextBuilder builder(rt.budget);
  for (size_t i = 0; i < self.text->size() && rt.budget.ok();) {
    const size_t start = i;
    const char32_t c = next_code_point(self.bytes(), &i);
    if (c == '\t') {
      const int64_t blanks = size > 0 ? size - column % size : 0;
      builder.repeat(' ', static_cast<uint64_t>(blanks), self.text->trusted_at(start));
      column += blanks;
      continue;
    }
    column = c == '\n' || c == '\r' ? 0 : column + 1;
    builder.append(*self.text, start, i);
  }
  return rt.finish(builder, out);
}

bool format(Runtime& rt, const Value& self, const Arguments& args, Value* out) {
  return format_braces(rt, self.text, args, out);
}

constexpr NamedFunction kMethods[] = {
    {"center", center},
    {"count", count},
    {"endswith", endswith},
    {"expandtabs", expandtabs},
    {"find", find},
    {"format", format},
    {"index", index},
    {"join", join},
    {"ljust", ljust},
    {"lstrip", lstrip},
    {"partition", partition},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"replace", replace_method},
    {"rfind", rfind},
    {"rindex", rindex},
    {"rjust", rjust},
    {"rpartition", rpartition},
    {"rsplit", rsplit},
    {"rstrip", rstrip},
    {"split", split_left},
    {"splitlines", splitlines},
    {"startswith", startswith},
    {"strip", strip_both},
    {"zfill", zfill},
};

}  // namespace

const NamedFunction* find_text_method(std::string_view name) {
  if (const NamedFunction* found = find_in({kMethods, std::size(kMethods)}, name)) return found;
  return find_in(case_methods(), name);
}

}  // namespace banter::text::jinja
