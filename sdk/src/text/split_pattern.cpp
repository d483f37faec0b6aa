#include "text/split_pattern.h"

#ifdef _WIN32
#define PCRE2_STATIC
#endif
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

namespace banter::text {
namespace {

// One search may take so many backtracking steps: a hundred times what a megabyte of one character needs at worst in
// the patterns of real models, and well under a second.
constexpr uint32_t kMatchLimit = 20'000'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr size_t kMaxPatternBytes = 32 * 1024;

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
  std::unique_ptr<pcre2_match_context, MatchContextFree> context;
  bool jit = false;
};

struct MatchScratch::Data {
  std::unique_ptr<pcre2_match_data, MatchDataFree> match;
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
  compiled->context.reset(pcre2_match_context_create(nullptr));
  if (!context || !compiled->context)
    return Error{BANTER_ERROR_OUT_OF_MEMORY, "Out of memory while loading the tokenizer."};
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  // Ruby's ^ and $ match at every line; \C would split code points.
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  int code = 0;
  PCRE2_SIZE offset = 0;
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(), kOptions,
                                     &code, &offset, context.get()));
  if (!compiled->code)
    return Error{BANTER_ERROR_UNSUPPORTED_TOKENIZER, "The tokenizer's split pattern \"" +
                                                         std::string(pattern.substr(0, 200)) +
                                                         "\" cannot be used: " + pcre2_message(code) + "."};
  compiled->jit = pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE) == 0;
  pcre2_set_match_limit(compiled->context.get(), kMatchLimit);
  pcre2_set_heap_limit(compiled->context.get(), kHeapLimitKib);
  return SplitPattern(std::move(compiled));
}

PatternMatch SplitPattern::find(std::string_view text, size_t from, MatchScratch& scratch) const {
  using Status = PatternMatch::Status;
  if (!compiled_->literal.empty()) {
    const size_t at = text.find(compiled_->literal, from);
    if (at == std::string_view::npos) return {Status::kNoMatch, 0, 0};
    return {Status::kMatch, at, at + compiled_->literal.size()};
  }
  auto& match = scratch.data_->match;
  if (!match) match.reset(pcre2_match_data_create(1, nullptr));
  if (!match) return {Status::kGaveUp, 0, 0};
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int code = PCRE2_ERROR_JIT_STACKLIMIT;
  if (compiled_->jit)
    code = pcre2_jit_match(compiled_->code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK, match.get(),
                           compiled_->context.get());
  if (code == PCRE2_ERROR_JIT_STACKLIMIT || code == PCRE2_ERROR_JIT_BADOPTION)
    code = pcre2_match(compiled_->code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                       match.get(), compiled_->context.get());
  if (code == PCRE2_ERROR_NOMATCH) return {Status::kNoMatch, 0, 0};
  if (code < 0) return {Status::kGaveUp, 0, 0};
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
  // \K may move the start anywhere; a match must lie ahead of us.
  if (range[0] < from || range[1] < range[0] || range[1] > text.size()) return {Status::kGaveUp, 0, 0};
  return {Status::kMatch, range[0], range[1]};
}

}  // namespace banter::text
