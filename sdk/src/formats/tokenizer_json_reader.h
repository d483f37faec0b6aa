// Reads a tokenizer.json without building a tree of its hundreds of thousands of vocabulary entries.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace banter::formats {

/** A tokenizer.json, taken apart. */
struct TokenizerJson {
  nlohmann::json rest;                                      // everything but model.vocab and model.merges
  std::vector<std::pair<std::string, int64_t>> vocab;       // model.vocab as an object, in file order
  std::vector<std::pair<std::string, std::string>> merges;  // model.merges in either spelling
  bool vocab_is_object = false;
};

/** Parses. Errors: CORRUPT, with the place. Depth is bounded. */
Result<TokenizerJson> read_tokenizer_json(std::string_view text);

/** Parses a small JSON document; CORRUPT where it is none. `what` names it in the message. */
Result<nlohmann::json> parse_json(std::string_view text, std::string_view what);

}  // namespace banter::formats
