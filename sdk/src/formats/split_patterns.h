// What GGUF's `tokenizer.ggml.pre` names stand for.
#pragma once

#include <string_view>
#include <vector>

#include "formats/vocabulary.h"

namespace banter::formats {

/** How a family of byte-level tokenizers prepares text. */
struct PreTokenizer {
  std::vector<SplitStage> splits;
  bool nfc = false;  // the models were trained on NFC text
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

/** The GPT-2 pattern, which `ByteLevel` of tokenizer.json files implies. */
extern const std::string_view kGpt2Pattern;

/** Looks a `.pre` name up; false where nobody told us what it means. "default" is a best effort. */
bool find_pre_tokenizer(std::string_view name, PreTokenizer& out);

}  // namespace banter::formats
