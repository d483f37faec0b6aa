// A hostile tokenizer.json, and hostile text for what it describes. The input is up to three parts with a zero byte
// between them: tokenizer.json, text, tokenizer_config.json.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "formats/vocabulary.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using namespace banter;
using text::Segment;
using text::TokenId;
using text::Tokenizer;

void require(bool condition) {
  if (!condition) std::abort();
}

std::string_view take_part(std::string_view& input) {
  const size_t end = std::min(input.find('\0'), input.size());
  const std::string_view part = input.substr(0, end);
  input.remove_prefix(std::min(end + 1, input.size()));
  return part;
}

void check_ids(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool control_allowed) {
  for (const TokenId id : ids) {
    require(id >= 0 && static_cast<size_t>(id) < tokenizer.size());
    require(control_allowed || !tokenizer.is_control(id));
  }
  for (const bool special : {false, true}) require(text::utf8_is_valid(tokenizer.decode(ids, special)));
  text::StreamDecoder stream(tokenizer, true);
  std::string streamed;
  for (const TokenId id : ids) {
    std::string delta;
    stream.push(id, delta);
    require(text::utf8_is_valid(delta));
    streamed += delta;
  }
  stream.finish();
  // Decoding at once may only add one U+FFFD for an incomplete end.
  const std::string decoded = tokenizer.decode(ids);
  require(decoded == streamed || decoded == streamed + std::string(text::kReplacementCharacter));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view json = take_part(input);
  const std::string_view sample = take_part(input).substr(0, 4096);
  Result<formats::Vocabulary> vocabulary = formats::vocabulary_from_json(json, input);
  if (!vocabulary) {
    require(vocabulary.error().code != BANTER_OK && !vocabulary.error().message.empty());
    return 0;
  }
  // Only these may come out of foreign text although they are no ordinary tokens.
  const bool unknown_is_control =
      vocabulary->unknown >= 0 &&
      vocabulary->tokens[static_cast<size_t>(vocabulary->unknown)].kind == formats::TokenKind::kControl;
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::create(std::move(*vocabulary));
  if (!tokenizer) {
    require(!tokenizer.error().message.empty());
    return 0;
  }
  std::vector<TokenId> ids;
  (*tokenizer)->encode(sample, false, ids);
  check_ids(**tokenizer, ids, unknown_is_control);
  ids.clear();
  (*tokenizer)->encode(sample, true, ids);
  check_ids(**tokenizer, ids, true);
  (*tokenizer)->add_special(ids);
  std::vector<Segment> segments;
  for (size_t at = 0, step = 1; at < sample.size(); at += step, step = step % 7 + 1)
    segments.push_back({std::string(sample.substr(at, step)), step % 2 == 0});
  ids.clear();
  (*tokenizer)->encode(segments, ids);
  check_ids(**tokenizer, ids, true);
  for (Segment& segment : segments) segment.trusted = false;
  ids.clear();
  (*tokenizer)->encode(segments, ids);
  check_ids(**tokenizer, ids, unknown_is_control);
  return 0;
}
