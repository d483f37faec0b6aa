#include "text/splitter.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace banter::text {
namespace {

using formats::SplitBehavior;

// After so many searches that hit their limit, a call stops searching: together they stay in the range of seconds.
constexpr int kMaxFailures = 4;

}  // namespace

Result<Splitter> Splitter::create(const std::vector<formats::SplitStage>& stages) {
  constexpr size_t kMaxStages = 32;
  if (stages.size() > kMaxStages)
    return Error{BANTER_ERROR_UNSUPPORTED_TOKENIZER, "The tokenizer has more than 32 split stages."};
  Splitter splitter;
  for (const formats::SplitStage& stage : stages) {
    Result<SplitPattern> pattern = SplitPattern::compile(stage.pattern, stage.literal);
    if (!pattern) return pattern.error();
    splitter.stages_.push_back({std::move(*pattern), stage.behavior, stage.invert, stage.on_byte_alphabet});
  }
  return splitter;
}

// Cuts `text` into matches and the gaps between them.
void Splitter::find_stretches(const Stage& stage, std::string_view text, SplitScratch& scratch) const {
  scratch.stretches.clear();
  const auto add = [&](size_t begin, size_t end, bool match) {
    if (begin < end)
      scratch.stretches.push_back({{static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, match != stage.invert});
  };
  size_t done = 0;  // everything before is cut
  size_t from = 0;
  while (from < text.size()) {
    if (scratch.failures >= kMaxFailures) break;
    const PatternMatch found = stage.pattern.find(text, from, scratch.match);
    if (found.status == PatternMatch::Status::kGaveUp) ++scratch.failures;
    if (found.status != PatternMatch::Status::kMatch) break;
    add(done, found.begin, false);
    add(found.begin, found.end, true);
    done = found.end;
    from = found.end;
    if (found.begin == found.end && from < text.size()) from += utf8_size(text[from]);  // an empty match: go on
  }
  add(done, text.size(), false);
}

void Splitter::arrange(const Stage& stage, std::vector<SplitScratch::Stretch>& stretches, uint32_t offset,
                       std::vector<Piece>& out) {
  const size_t first = out.size();
  const auto put = [&](Piece piece) { out.push_back({piece.begin + offset, piece.end + offset}); };
  bool previous_match = false;
  switch (stage.behavior) {
    case SplitBehavior::kIsolated:
      for (const auto& stretch : stretches) put(stretch.piece);
      break;
    case SplitBehavior::kRemoved:
      for (const auto& stretch : stretches)
        if (!stretch.match) put(stretch.piece);
      break;
    case SplitBehavior::kContiguous:
      for (const auto& stretch : stretches) {
        if (out.size() > first && stretch.match == previous_match) {
          out.back().end = stretch.piece.end + offset;
        } else {
          put(stretch.piece);
        }
        previous_match = stretch.match;
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      for (const auto& stretch : stretches) {
        if (out.size() > first && stretch.match && !previous_match) {
          out.back().end = stretch.piece.end + offset;
        } else {
          put(stretch.piece);
        }
        previous_match = stretch.match;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      for (auto stretch = stretches.rbegin(); stretch != stretches.rend(); ++stretch) {
        if (out.size() > first && stretch->match && !previous_match) {
          out.back().begin = stretch->piece.begin + offset;
        } else {
          put(stretch->piece);
        }
        previous_match = stretch->match;
      }
      std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
      break;
  }
}

const std::vector<Piece>& Splitter::split(std::string_view text, SplitScratch& scratch) const {
  scratch.pieces.clear();
  if (!text.empty()) scratch.pieces.push_back({0, static_cast<uint32_t>(text.size())});
  for (const Stage& stage : stages_) {
    scratch.next.clear();
    for (const Piece piece : scratch.pieces) {
      const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
      if (!stage.on_byte_alphabet) {
        find_stretches(stage, part, scratch);
        arrange(stage, scratch.stretches, piece.begin, scratch.next);
        continue;
      }
      // One code point of the alphabet stands for one byte, so borders carry over.
      scratch.alphabet.clear();
      scratch.alphabet_ends.assign(1, 0);
      for (const char byte : part) {
        utf8_append(byte_alphabet_code_point(static_cast<uint8_t>(byte)), scratch.alphabet);
        scratch.alphabet_ends.push_back(static_cast<uint32_t>(scratch.alphabet.size()));
      }
      find_stretches(stage, scratch.alphabet, scratch);
      const auto byte_at = [&](uint32_t position) {
        const auto& ends = scratch.alphabet_ends;
        return static_cast<uint32_t>(std::lower_bound(ends.begin(), ends.end(), position) - ends.begin());
      };
      for (auto& stretch : scratch.stretches)
        stretch.piece = {byte_at(stretch.piece.begin), byte_at(stretch.piece.end)};
      arrange(stage, scratch.stretches, piece.begin, scratch.next);
    }
    std::swap(scratch.pieces, scratch.next);
  }
  return scratch.pieces;
}

}  // namespace banter::text
