// Normalisation of text before tokenisation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/vocabulary.h"
#include "text/trusted_text.h"

namespace banter::text {

/** The canonical (NFC) or compatibility (NFKC) composition of valid UTF-8, appended to `out`. Time and memory are
 *  linear in the text but for sorting runs of combining marks (n log n). */
void append_composed(std::string_view text, bool compatibility, std::string& out);

/** Whether text is its own NFC at sight: no code point in it decomposes, reorders or composes. May say no wrongly. */
bool is_plainly_nfc(std::string_view text);

/** The steps of a vocabulary's normaliser. Immutable. */
class Normalizer {
 public:
  explicit Normalizer(std::vector<formats::NormalizeStep> steps) : steps_(std::move(steps)) {}
  bool empty() const { return steps_.empty(); }
  /** Whether `apply` would leave `text` as it is; may say no wrongly. */
  bool keeps(std::string_view text) const;
  /** Normalises valid UTF-8 in place. A byte of the result is trusted only if all it stems from was. */
  void apply(TrustedText& text) const;
  std::string apply(std::string_view text) const;

 private:
  std::vector<formats::NormalizeStep> steps_;
};

}  // namespace banter::text
