#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "text/utf8.h"

namespace banter::text {
namespace {

using formats::NormalizeKind;
using formats::NormalizeStep;

struct Range {
  uint32_t first, last;
};

// Blocks without decompositions, combining marks or characters that compose with the one before them. Everything below
// U+0300 counts too: what decomposes there is composed already. Texts outside these blocks take the slow, exact way.
constexpr Range kInertRanges[] = {
    {0x0000, 0x02FF}, {0x0400, 0x0482}, {0x2010, 0x2027}, {0x2030, 0x205E},   {0x2190, 0x2199},   {0x25A0, 0x2AD9},
    {0x3001, 0x3029}, {0x3041, 0x3098}, {0x30A0, 0x30FF}, {0x3400, 0x9FFF},   {0xAC00, 0xD7A3},   {0xE000, 0xF8FF},
    {0xFE00, 0xFE0F}, {0xFF01, 0xFF9D}, {0xFFFD, 0xFFFD}, {0x1F000, 0x1FAFF}, {0x20000, 0x2A6DF},
};

bool is_inert(uint32_t code_point) {
  for (const Range& range : kInertRanges)
    if (code_point <= range.last) return code_point >= range.first;
  return false;
}

int combining_class(uint32_t code_point) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->combining_class;
}

// Canonical ordering: each run of combining marks sorted by class, marks of one class in their order. utf8proc's own
// sort is quadratic, and a text of a million marks must not stall us.
void sort_marks(std::vector<utf8proc_int32_t>& code_points) {
  std::vector<std::pair<int, utf8proc_int32_t>> run;
  for (size_t i = 0; i < code_points.size();) {
    run.clear();
    for (size_t j = i; j < code_points.size(); ++j) {
      const int mark_class = combining_class(static_cast<uint32_t>(code_points[j]));
      if (mark_class == 0) break;
      run.emplace_back(mark_class, code_points[j]);
    }
    if (run.size() > 1) {
      std::stable_sort(run.begin(), run.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (size_t j = 0; j < run.size(); ++j) code_points[i + j] = run[j].second;
    }
    i += std::max<size_t>(run.size(), 1);
  }
}

// Splits `text` where both sides normalise independently (before an inert character), as close to the borders of trust
// as can be. What lies around a border that is no such place counts as untrusted.
template <class Emit>
void for_each_trust_stretch(const TrustedText& in, Emit&& emit) {
  const std::string_view text = in.text;
  const auto inert_at = [&](size_t at) { return is_inert(utf8_step(text.substr(at)).code_point); };
  const auto put = [&](size_t begin, size_t end) {
    if (begin < end) emit(text.substr(begin, end - begin), in.trust.trusted(begin, end));
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t border = in.trust.run_end(begin, text.size());
    size_t end = border;
    while (end < text.size() && !inert_at(end)) end += utf8_size(text[end]);
    size_t last = border;  // what joins over the border begins here
    while (end > border && last > begin) {
      do --last;
      while (last > begin && (static_cast<uint8_t>(text[last]) & 0xC0) == 0x80);
      if (inert_at(last)) break;
    }
    put(begin, last);
    put(last, end);
    begin = end;
  }
}

void compose(TrustedText& text, bool compatibility) {
  if (compatibility ? is_ascii(text.text) : is_plainly_nfc(text.text)) return;
  TrustedText out;
  std::string composed;
  for_each_trust_stretch(text, [&](std::string_view stretch, bool trusted) {
    composed.clear();
    append_composed(stretch, compatibility, composed);
    out.append(composed, trusted);
  });
  text = std::move(out);
}

void replace(TrustedText& text, const NormalizeStep& step) {
  if (step.pattern.empty()) return;
  size_t from = text.text.find(step.pattern);
  if (from == std::string::npos) return;
  TrustedText out;
  out.text.reserve(text.text.size() + text.text.size() / 4);
  size_t at = 0;
  const auto copy_to = [&](size_t end) {
    while (at < end) {
      const size_t stop = text.trust.run_end(at, end);
      out.append(std::string_view(text.text).substr(at, stop - at), text.trust.trusted(at, stop));
      at = stop;
    }
  };
  for (; from != std::string::npos; from = text.text.find(step.pattern, at)) {
    copy_to(from);
    at = from + step.pattern.size();
    out.append(step.content, text.trust.trusted(from, at));
  }
  copy_to(text.text.size());
  text = std::move(out);
}

void prepend(TrustedText& text, const std::string& content) {
  if (text.text.empty()) return;
  TrustedText out;
  out.text.reserve(content.size() + text.text.size());
  out.append(content, true);  // the model's own bytes
  for (size_t at = 0; at < text.text.size();) {
    const size_t stop = text.trust.run_end(at, text.text.size());
    out.append(std::string_view(text.text).substr(at, stop - at), text.trust.trusted(at, stop));
    at = stop;
  }
  text = std::move(out);
}

}  // namespace

bool is_plainly_nfc(std::string_view text) {
  while (!text.empty()) {
    if (static_cast<uint8_t>(text[0]) < 0x80) {
      text.remove_prefix(1);
      continue;
    }
    const Utf8Step step = utf8_step(text);
    if (!is_inert(step.code_point)) return false;
    text.remove_prefix(step.size);
  }
  return true;
}

void append_composed(std::string_view text, bool compatibility, std::string& out) {
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size() / 2);
  const int decompose = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    utf8proc_int32_t buffer[32];  // the longest decomposition, U+FDFA's, has 18 code points
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point), buffer, 32,
                                                           static_cast<utf8proc_option_t>(decompose), nullptr);
    if (count >= 1 && count <= 32) {
      code_points.insert(code_points.end(), buffer, buffer + count);
    } else {
      code_points.push_back(static_cast<utf8proc_int32_t>(step.code_point));
    }
    text.remove_prefix(step.size);
  }
  sort_marks(code_points);
  const int recompose = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  const utf8proc_ssize_t size = utf8proc_normalize_utf32(
      code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()), static_cast<utf8proc_option_t>(recompose));
  for (utf8proc_ssize_t i = 0; i < size; ++i)
    utf8_append(static_cast<uint32_t>(code_points[static_cast<size_t>(i)]), out);
}

bool Normalizer::keeps(std::string_view text) const {
  return std::all_of(steps_.begin(), steps_.end(), [&](const NormalizeStep& step) {
    switch (step.kind) {
      case NormalizeKind::kNfc:
        return is_plainly_nfc(text);
      case NormalizeKind::kNfkc:
        return is_ascii(text);
      case NormalizeKind::kPrepend:
        return text.empty() || step.content.empty();
      case NormalizeKind::kReplace:
        return step.pattern.empty() || text.find(step.pattern) == std::string_view::npos;
    }
    return false;
  });
}

void Normalizer::apply(TrustedText& text) const {
  for (const NormalizeStep& step : steps_) {
    switch (step.kind) {
      case NormalizeKind::kNfc:
        compose(text, false);
        break;
      case NormalizeKind::kNfkc:
        compose(text, true);
        break;
      case NormalizeKind::kPrepend:
        prepend(text, step.content);
        break;
      case NormalizeKind::kReplace:
        replace(text, step);
        break;
    }
  }
}

std::string Normalizer::apply(std::string_view text) const {
  TrustedText marked;
  marked.append(text, false);
  apply(marked);
  return std::move(marked.text);
}

}  // namespace banter::text
