#include "text/split_pattern.h"

#ifdef _WIN32
#define PCRE2_STATIC
#endif
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "formats/gguf_cursor.h"
#include "text/utf8.h"

namespace banter::text {
namespace {

// Backtracking steps of one search: the first try gets few, more are charged to the call's effort. A megabyte of one
// character needs about a million in the patterns of real models.
constexpr uint32_t kFirstMatchLimit = 4096;
constexpr uint32_t kLastMatchLimit = 1u << 24;
constexpr uint32_t kMatchLimitGrowth = 8;
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr size_t kMaxPatternBytes = 32 * 1024;
// A search sees so many bytes at a time. Only a match that begins there and reaches their end makes it look further, and
// that is charged to the call's effort: patterns that look far ahead at every position would take quadratic time.
constexpr size_t kFirstWindow = 1024;

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct CompileContextFree {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};
struct MatchContextFree {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct MatchDataFree {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

std::string pcre2_message(int code) {
  char buffer[160] = "";
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(buffer), sizeof buffer);
  return buffer;
}

}  // namespace

struct SplitPattern::Compiled {
  std::string literal;  // where not empty, the pattern is this text and nothing else below is used
  std::unique_ptr<pcre2_code, CodeFree> code;
  bool jit = false;

  // pcre2_match's result. The compiled code is fast, but has a small stack; where that is used up, the interpreter goes on.
  int search(std::string_view text, size_t from, uint32_t options, pcre2_match_data* match,
             pcre2_match_context* context) const {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    options |= PCRE2_NO_UTF_CHECK;
    if (jit) {
      const int result = pcre2_jit_match(code.get(), subject, text.size(), from, options, match, context);
      if (result != PCRE2_ERROR_JIT_STACKLIMIT && result != PCRE2_ERROR_JIT_BADOPTION) return result;
    }
    return pcre2_match(code.get(), subject, text.size(), from, options | PCRE2_NO_JIT, match, context);
  }
};

struct MatchScratch::Data {
  std::unique_ptr<pcre2_match_data, MatchDataFree> match;
  std::unique_ptr<pcre2_match_context, MatchContextFree> context;

  bool ready() {
    if (!match) match.reset(pcre2_match_data_create(1, nullptr));
    if (!context) {
      context.reset(pcre2_match_context_create(nullptr));
      if (context) pcre2_set_heap_limit(context.get(), kHeapLimitKib);
    }
    return match && context;
  }
};

MatchScratch::MatchScratch() : data_(std::make_unique<Data>()) {}
MatchScratch::~MatchScratch() = default;

SplitPattern::SplitPattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;
SplitPattern::~SplitPattern() = default;

Result<SplitPattern> SplitPattern::compile(std::string_view pattern, bool literal) {
  auto compiled = std::make_unique<Compiled>();
  if (pattern.empty() || pattern.size() > kMaxPatternBytes)
    return Error{BANTER_ERROR_CORRUPT,
                 "The tokenizer has a split pattern that is empty or longer than 32 KiB; the file is damaged."};
  if (literal) {
    compiled->literal = pattern;
    return SplitPattern(std::move(compiled));
  }
  Result<std::string> translated = pattern_for_pcre2(pattern);
  if (!translated) return translated.error();
  std::unique_ptr<pcre2_compile_context, CompileContextFree> context(pcre2_compile_context_create(nullptr));
  if (!context) return Error{BANTER_ERROR_OUT_OF_MEMORY, "Out of memory while loading the tokenizer."};
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  // Ruby's ^ and $ match at every line; \C would split code points.
  constexpr uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT;
  int code = 0;
  PCRE2_SIZE offset = 0;
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(), kOptions,
                                     &code, &offset, context.get()));
  if (!compiled->code)
    return Error{BANTER_ERROR_UNSUPPORTED_TOKENIZER, "The tokenizer's split pattern " +
                                                         formats::quote_for_message(pattern) +
                                                         " cannot be used: " + pcre2_message(code) + "."};
  compiled->jit = pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
  return SplitPattern(std::move(compiled));
}

PatternMatch SplitPattern::find(std::string_view text, size_t from, MatchScratch& scratch) const {
  using Status = PatternMatch::Status;
  if (!compiled_->literal.empty()) {
    const size_t at = text.find(compiled_->literal, from);
    if (at == std::string_view::npos) return {Status::kNoMatch, 0, 0};
    return {Status::kMatch, at, at + compiled_->literal.size()};
  }
  MatchScratch::Data& data = *scratch.data_;
  if (!data.ready()) return {Status::kGaveUp, 0, 0};
  const auto charge = [&](uint64_t effort) {
    const bool paid = effort <= scratch.effort_left;
    if (paid) scratch.effort_left -= effort;
    return paid;
  };
  uint32_t limit = kFirstMatchLimit;
  size_t window = kFirstWindow;
  bool one_start = false;  // only a match that begins at `from` counts: it needs more than the first window
  while (true) {
    size_t end = text.size() - from > window ? from + window : text.size();
    while (end < text.size() && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) ++end;
    const bool whole = end == text.size();
    pcre2_set_match_limit(data.context.get(), limit);
    pcre2_set_offset_limit(data.context.get(), one_start ? from : PCRE2_UNSET);
    const int code = compiled_->search(text.substr(0, end), from, whole ? 0 : PCRE2_PARTIAL_HARD, data.match.get(),
                                       data.context.get());
    if (code == PCRE2_ERROR_PARTIAL) {
      if (!one_start) from = std::max(from, pcre2_get_ovector_pointer(data.match.get())[0]);
      one_start = true;
      window *= 2;
      if (!charge(window)) return {Status::kGaveUp, 0, 0};
      continue;
    }
    if (code == PCRE2_ERROR_NOMATCH) {
      // No match begins in what was seen, none that would have to look behind it either.
      if (whole && !one_start) return {Status::kNoMatch, 0, 0};
      from = one_start ? from + utf8_size(text[from]) : end;
      if (from >= text.size()) return {Status::kNoMatch, 0, 0};
      one_start = false;
      window = kFirstWindow;
      limit = kFirstMatchLimit;
      continue;
    }
    if (code == PCRE2_ERROR_MATCHLIMIT && limit < kLastMatchLimit) {
      limit *= kMatchLimitGrowth;
      if (!charge(limit)) return {Status::kGaveUp, 0, 0};
      continue;
    }
    if (code < 0) return {Status::kGaveUp, 0, 0};
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.match.get());
    if (range[0] < from || range[1] < range[0] || range[1] > end) return {Status::kGaveUp, 0, 0};
    return {Status::kMatch, range[0], range[1]};
  }
}

}  // namespace banter::text
