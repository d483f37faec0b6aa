#include "sentence_splitter.h"

#include <algorithm>
#include <array>

namespace banter::godot {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";
constexpr std::array<std::string_view, 9> kTitles = {"Mr", "Mrs", "Ms", "Dr", "St", "Prof", "Sr", "Jr", "vs"};
constexpr std::array<std::string_view, 5> kWideEnds = {"。", "！", "？", "…", "．"};
constexpr std::array<std::string_view, 13> kClosers = {"\"", "'",  ")",  "]",  "*",  "”", "’",
                                                       "»",  "」", "』", "）", "】", "》"};

template <size_t kCount>
size_t length_of_any(std::string_view text, const std::array<std::string_view, kCount>& words) {
  for (const std::string_view word : words) {
    if (text.starts_with(word)) return word.size();
  }
  return 0;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/** Whether the full stop at `at` belongs to an initial or a title. */
bool abbreviates(std::string_view text, size_t at) {
  size_t start = at;
  while (start > 0 && is_letter(text[start - 1])) start--;
  const std::string_view word = text.substr(start, at - start);
  if (start > 0 && static_cast<unsigned char>(text[start - 1]) >= 0x80) return false;  // the end of an accented word
  if (word.size() == 1) return word != "I" && word != "a";
  return std::find(kTitles.begin(), kTitles.end(), word) != kTitles.end();
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kSpaces) - first + 1));
}

enum class End { kNone, kUndecided, kHere };
struct Cut {
  End end = End::kNone;
  size_t after = 0;  // kHere: where the next sentence begins
};

/** Whether a sentence ends with the character at `at`. */
Cut cut_at(std::string_view text, size_t at) {
  const char c = text[at];
  if (c == '\n') return {End::kHere, at + 1};
  size_t after = at;
  bool narrow = false;
  if (const size_t wide = length_of_any(text.substr(at), kWideEnds); wide > 0) {
    after += wide;
  } else if (c == '.' || c == '!' || c == '?') {
    if (c == '.' && abbreviates(text, at)) return {};
    narrow = true;
    after++;
  } else {
    return {};
  }
  while (after < text.size()) {
    const std::string_view rest = text.substr(after);
    const size_t more = rest[0] == '.' || rest[0] == '!' || rest[0] == '?'
                            ? 1
                            : std::max(length_of_any(rest, kWideEnds), length_of_any(rest, kClosers));
    if (more == 0) break;
    after += more;
  }
  if (after == text.size()) return {End::kUndecided, 0};  // a closing quote may follow
  if (narrow && kSpaces.find(text[after]) == std::string_view::npos) return {};
  return {End::kHere, after};
}

}  // namespace

std::vector<std::string> SentenceSplitter::add(std::string_view text) {
  waiting_.append(text);
  std::vector<std::string> sentences;
  size_t start = 0;
  while (scanned_ < waiting_.size()) {
    // Without the sentences before it, so that it does not matter whether these were given out already.
    const Cut cut = cut_at(std::string_view(waiting_).substr(start), scanned_ - start);
    if (cut.end == End::kUndecided) break;
    if (cut.end == End::kNone) {
      scanned_++;
      continue;
    }
    std::string sentence = trimmed(std::string_view(waiting_).substr(start, cut.after));
    if (!sentence.empty()) sentences.push_back(std::move(sentence));
    start = scanned_ = start + cut.after;
  }
  waiting_.erase(0, start);
  scanned_ -= start;
  return sentences;
}

std::string SentenceSplitter::finish() {
  std::string rest = trimmed(waiting_);
  waiting_.clear();
  scanned_ = 0;
  return rest;
}

}  // namespace banter::godot
