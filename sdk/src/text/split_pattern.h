// The regular expressions of tokenizer files, run by PCRE2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace banter::text {

/** Rewrites an expression from Oniguruma's Ruby syntax (what tokenizer.json files are written for) for PCRE2: \s, \w, \h
 *  and \uHHHH by their Unicode meaning, nested sets and intersections (`[a&&[^b]]`) by alternatives and look-ahead.
 *  Errors: UNSUPPORTED_TOKENIZER for a construct without a counterpart, CORRUPT for a malformed set. */
Result<std::string> pattern_for_pcre2(std::string_view pattern);

struct PatternMatch {
  enum class Status { kMatch, kNoMatch, kGaveUp };
  Status status = Status::kNoMatch;
  size_t begin = 0, end = 0;
};

class MatchScratch;

/** A compiled pattern. Immutable; threads use it at the same time, each with its own MatchScratch. */
class SplitPattern {
 public:
  /** @param literal  `pattern` is plain text */
  static Result<SplitPattern> compile(std::string_view pattern, bool literal);
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  /** The first match in `text` (valid UTF-8) at or after `from`. kGaveUp: the effort or memory limit was reached. */
  PatternMatch find(std::string_view text, size_t from, MatchScratch& scratch) const;

 private:
  struct Compiled;
  explicit SplitPattern(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

/** Working memory of matching: one per call or thread. */
class MatchScratch {
 public:
  /** What the searches of a call may still look ahead (bytes) and backtrack (steps) beyond the little that each has
   *  free. A search that needs more is given up. Deterministic: it depends on pattern and text only. */
  uint64_t effort_left = 0;

  MatchScratch();
  ~MatchScratch();
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

 private:
  friend class SplitPattern;
  struct Data;
  std::unique_ptr<Data> data_;
};

}  // namespace banter::text
