// Splitting text into the pieces that byte-pair encoding works on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/vocabulary.h"
#include "text/split_pattern.h"

namespace banter::text {

/** Bytes [begin, end) of the text that is split. */
struct Piece {
  uint32_t begin = 0, end = 0;
};

/** Memory that splitting reuses. One per call, told the size of all text that the call will split. */
struct SplitScratch {
  explicit SplitScratch(size_t text_bytes) { match.effort_left = kEffortFloor + kEffortPerByte * text_bytes; }
  // Far more than the patterns of real models need on any text, and still a matter of seconds.
  static constexpr uint64_t kEffortFloor = 256 << 20;
  static constexpr uint64_t kEffortPerByte = 64;

  MatchScratch match;
  std::vector<Piece> pieces, next;
  struct Stretch {
    Piece piece;
    bool match;
  };
  std::vector<Stretch> stretches;
  std::string alphabet;                 // a piece spelled in the byte alphabet
  std::vector<uint32_t> alphabet_ends;  // per byte of the piece: where its code point ends in `alphabet`
  int failures = 0;                     // searches given up in this call
};

/** The split stages of a vocabulary. Immutable. */
class Splitter {
 public:
  static Result<Splitter> create(const std::vector<formats::SplitStage>& stages);
  bool empty() const { return stages_.empty(); }
  /** Pieces of `text` (valid UTF-8, below 4 GiB), in order, never empty. Borrowed from the scratch. Where a pattern's
   *  search is given up (hostile text or pattern), the rest of that piece stays whole. */
  const std::vector<Piece>& split(std::string_view text, SplitScratch& scratch) const;

 private:
  struct Stage {
    SplitPattern pattern;
    formats::SplitBehavior behavior;
    bool invert;
    bool on_byte_alphabet;
  };
  void find_stretches(const Stage& stage, std::string_view text, SplitScratch& scratch) const;
  static void arrange(const Stage& stage, std::vector<SplitScratch::Stretch>& stretches, uint32_t offset,
                      std::vector<Piece>& out);

  std::vector<Stage> stages_;
};

}  // namespace banter::text
