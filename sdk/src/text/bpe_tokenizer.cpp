#include "text/bpe_tokenizer.h"

#include <algorithm>

#include "text/utf8.h"

namespace banter::text {

using formats::SpacePrefix;
using formats::TokenKind;
using formats::VocabularyModel;
using formats::VocabularyToken;

namespace {

// Pieces index their bytes with 32 bits; longer texts are cut, at a code point, into stretches of this size.
constexpr size_t kMaxStretchBytes = size_t{1} << 28;

// Valid UTF-8 with the same trust; a replaced byte is trusted if all bytes that it stands for were.
void sanitize(TrustedText& text) {
  if (utf8_is_valid(text.text)) return;
  TrustedText out;
  const std::string_view in = text.text;
  for (size_t at = 0; at < in.size();) {
    const Utf8Step step = utf8_step(in.substr(at));
    const bool trusted = text.trust.trusted(at, at + step.size);
    out.append(step.status == Utf8Status::kOk ? in.substr(at, step.size) : kReplacementCharacter, trusted);
    at += step.size;
  }
  text = std::move(out);
}

bool word_character_before(std::string_view text, size_t at) {
  if (at == 0) return false;
  size_t begin = at - 1;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return is_word_character(utf8_step(text.substr(begin)).code_point);
}

bool word_character_at(std::string_view text, size_t at) {
  return at < text.size() && is_word_character(utf8_step(text.substr(at)).code_point);
}

size_t skip_white_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (!is_white_space(step.code_point)) break;
    at += step.size;
  }
  return at;
}

size_t skip_white_space_back(std::string_view text, size_t at, size_t limit) {
  while (at > limit) {
    size_t begin = at - 1;
    while (begin > limit && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!is_white_space(utf8_step(text.substr(begin)).code_point)) break;
    at = begin;
  }
  return at;
}

uint32_t joint(char last, char first) {
  return static_cast<uint32_t>(static_cast<uint8_t>(last)) << 8 | static_cast<uint8_t>(first);
}

}  // namespace

void BpeTokenizer::encode(std::string_view text, bool parse_special, std::vector<TokenId>& out) const {
  TrustedText whole;
  whole.append(text, parse_special);
  sanitize(whole);
  encode_text(whole, out);
}

void BpeTokenizer::encode(std::span<const Segment> segments, std::vector<TokenId>& out) const {
  TrustedText whole;
  for (const Segment& segment : segments) whole.append(segment.text, segment.trusted);
  sanitize(whole);
  encode_text(whole, out);
}

void BpeTokenizer::encode_text(const TrustedText& text, std::vector<TokenId>& out) const {
  Scratch scratch(text.text.size());
  out.reserve(out.size() + text.text.size() / 3);
  partition(raw_specials_, text.text, text.trust, 0, out, [&](size_t begin, size_t end) {
    encode_stretch(std::string_view(text.text).substr(begin, end - begin), text.trust, begin, scratch, out);
  });
}

// Appends the special tokens of `text` and calls on_text(begin, end) for what lies between them. The trust of text[i]
// is that of position trust_offset + i.
template <class OnText>
void BpeTokenizer::partition(const SpecialMatcher& matcher, std::string_view text, const TrustMap& trust,
                             size_t trust_offset, std::vector<TokenId>& out, OnText&& on_text) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size() && !matcher.empty();) {
    if (!matcher.may_start(text[at])) {
      ++at;
      continue;
    }
    const size_t position = trust_offset + at;
    const SpecialMatcher::Match match = matcher.longest(text.substr(at), [&](int32_t id, size_t size) {
      return !protected_[static_cast<size_t>(id)] || trust.trusted(position, position + size);
    });
    if (match.id < 0) {
      ++at;
      continue;
    }
    const VocabularyToken& token = vocabulary_.tokens[static_cast<size_t>(match.id)];
    size_t begin = at;
    size_t end = at + match.size;
    at = end;
    if (token.single_word && (word_character_before(text, begin) || word_character_at(text, end))) continue;
    if (token.strip_left) begin = skip_white_space_back(text, begin, done);
    if (token.strip_right) end = skip_white_space(text, end);
    if (done < begin) on_text(done, begin);
    out.push_back(match.id);
    done = at = end;
  }
  if (done < text.size()) on_text(done, text.size());
}

// Text between special tokens of the raw text: normalise, then look for the specials of normalised text.
void BpeTokenizer::encode_stretch(std::string_view text, const TrustMap& trust, size_t offset, Scratch& scratch,
                                  std::vector<TokenId>& out) const {
  if (normalizer_.keeps(text)) {
    partition(normalized_specials_, text, trust, offset, out, [&](size_t begin, size_t end) {
      encode_plain(text.substr(begin, end - begin), offset + begin == 0, scratch, out);
    });
    return;
  }
  TrustedText& normalized = scratch.normalized;
  normalized.clear();
  for (size_t at = 0; at < text.size();) {
    const size_t end = trust.run_end(offset + at, offset + text.size()) - offset;
    normalized.append(text.substr(at, end - at), trust.trusted(offset + at, offset + end));
    at = end;
  }
  normalizer_.apply(normalized);
  partition(normalized_specials_, normalized.text, normalized.trust, 0, out, [&](size_t begin, size_t end) {
    encode_plain(std::string_view(normalized.text).substr(begin, end - begin), offset == 0 && begin == 0, scratch, out);
  });
}

// Text without special tokens, normalised: spaces, pieces, merging.
void BpeTokenizer::encode_plain(std::string_view text, bool at_start, Scratch& scratch,
                                std::vector<TokenId>& out) const {
  const SpacePrefix scheme = vocabulary_.space_prefix;
  if (scheme != SpacePrefix::kNever || vocabulary_.escape_spaces) {
    const std::string_view space = vocabulary_.escape_spaces ? kSpaceSymbol : std::string_view(" ");
    std::string& prepared = scratch.prepared;
    prepared.clear();
    prepared.reserve(text.size() + text.size() / 2 + space.size());
    const bool present = text.starts_with(' ') || text.starts_with(space);
    const bool wanted = scheme == SpacePrefix::kAlways || (scheme == SpacePrefix::kUnlessPresent && !present) ||
                        (scheme == SpacePrefix::kUnlessPresentAtStart && at_start && !present);
    if (wanted) prepared.append(space);
    for (size_t at = 0; at < text.size();) {
      const size_t found = vocabulary_.escape_spaces ? text.find(' ', at) : std::string_view::npos;
      const size_t end = std::min(found, text.size());
      prepared.append(text.substr(at, end - at));
      if (end < text.size()) prepared.append(kSpaceSymbol);
      at = end + 1;
    }
    text = prepared;
  }
  while (!text.empty()) {
    size_t size = std::min(text.size(), kMaxStretchBytes);
    while (size < text.size() && (static_cast<uint8_t>(text[size]) & 0xC0) == 0x80) --size;
    const std::string_view stretch = text.substr(0, size);
    if (splitter_.empty()) {
      encode_piece(stretch, scratch, out);
    } else {
      for (const Piece piece : splitter_.split(stretch, scratch.split))
        encode_piece(stretch.substr(piece.begin, piece.end - piece.begin), scratch, out);
    }
    text.remove_prefix(size);
  }
}

void BpeTokenizer::encode_piece(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  scratch.unknown_open = false;
  if (vocabulary_.ignore_merges) {
    const TokenId id = find_piece(piece);
    if (id >= 0) {
      out.push_back(id);
      return;
    }
  }
  if (!split_words_) return encode_word(piece, scratch, out);
  // No token reaches over such a border, so neither does a merge: both sides encode on their own.
  size_t begin = 0;
  for (size_t at = utf8_size(piece[0]); at < piece.size(); at += utf8_size(piece[at])) {
    if (joints_[joint(piece[at - 1], piece[at])]) continue;
    encode_word(piece.substr(begin, at - begin), scratch, out);
    begin = at;
  }
  encode_word(piece.substr(begin), scratch, out);
}

void BpeTokenizer::encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  const TokenId whole = find_piece(word);
  if (whole >= 0 && merges_to_itself(whole, scratch)) {
    out.push_back(whole);
    scratch.unknown_open = false;
    return;
  }
  merge(word, scratch);
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.id >= 0) {
      out.push_back(symbol.id);
      scratch.unknown_open = false;
    } else {
      emit_unknown(word.substr(symbol.begin, symbol.size), scratch, out);
    }
  }
}

// A character that has no token: its byte tokens where the vocabulary has them all, else the unknown token, else nothing.
void BpeTokenizer::emit_unknown(std::string_view character, Scratch& scratch, std::vector<TokenId>& out) const {
  if (vocabulary_.model == VocabularyModel::kByteLevelBpe) return;  // a byte that the vocabulary lacks is dropped
  if (has_byte_tokens(character)) {
    for (const char c : character) out.push_back(byte_tokens_[static_cast<uint8_t>(c)]);
    scratch.unknown_open = false;
    return;
  }
  if (vocabulary_.unknown < 0) return;
  if (!scratch.unknown_open || !vocabulary_.fuse_unknown) out.push_back(vocabulary_.unknown);
  scratch.unknown_open = true;
}

bool BpeTokenizer::has_byte_tokens(std::string_view character) const {
  return vocabulary_.byte_fallback && std::all_of(character.begin(), character.end(),
                                                  [&](char c) { return byte_tokens_[static_cast<uint8_t>(c)] >= 0; });
}

bool BpeTokenizer::merges_to_itself(TokenId id, Scratch& scratch) const {
  std::atomic<uint8_t>& known = whole_[static_cast<size_t>(id)];
  uint8_t state = known.load(std::memory_order_relaxed);
  if (state == 0) {
    merge(piece_text(id), scratch);
    state = scratch.symbols.size() == 1 && scratch.symbols[0].id == id ? 1 : 2;
    known.store(state, std::memory_order_relaxed);
  }
  return state == 1;
}

void BpeTokenizer::make_symbols(std::string_view word, std::vector<Symbol>& symbols) const {
  symbols.clear();
  if (vocabulary_.model == VocabularyModel::kByteLevelBpe) {
    for (uint32_t i = 0; i < word.size(); ++i) {
      const int32_t id = byte_tokens_[static_cast<uint8_t>(word[i])];
      if (id >= 0) symbols.push_back({id, i, 1});
    }
    return;
  }
  // Where unknown characters vanish, their neighbours become adjacent and may join.
  const bool drop = vocabulary_.unknown < 0 && !vocabulary_.merge_by_score;
  for (uint32_t i = 0; i < word.size();) {
    const uint32_t size = utf8_size(word[i]);
    const int32_t id = size == 1 ? ascii_tokens_[static_cast<uint8_t>(word[i])] : find_piece(word.substr(i, size));
    if (id >= 0 || !drop || has_byte_tokens(word.substr(i, size))) symbols.push_back({id, i, size});
    i += size;
  }
}

// Leaves the tokens of `word` in scratch.symbols.
void BpeTokenizer::merge(std::string_view word, Scratch& scratch) const {
  make_symbols(word, scratch.symbols);
  if (!vocabulary_.merge_by_score) {
    merge_symbols(scratch.symbols, scratch.merge, [&](const Symbol& left, const Symbol& right) {
      return left.id < 0 || right.id < 0 ? Merge{} : merges_.find(left.id, right.id);
    });
    return;
  }
  merge_symbols(scratch.symbols, scratch.merge, [&](const Symbol& left, const Symbol& right) {
    const uint32_t size = left.size + right.size;
    if (left.id < 0 || right.id < 0 || size > max_piece_bytes_) return Merge{};
    const int32_t id = find_piece(word.substr(left.begin, size));
    return id < 0 ? Merge{} : Merge{score_ranks_[static_cast<size_t>(id)], id};
  });
}

TokenId BpeTokenizer::find_piece(std::string_view bytes) const {
  if (bytes.size() > max_piece_bytes_) return -1;
  return pieces_.find(bytes, [&](int32_t id) { return piece_text(id); });
}

void BpeTokenizer::add_special(std::vector<TokenId>& ids) const {
  const formats::Vocabulary& v = vocabulary_;
  if (!v.begin.empty() || !v.end.empty()) {
    ids.insert(ids.begin(), v.begin.begin(), v.begin.end());
    ids.insert(ids.end(), v.end.begin(), v.end.end());
    return;
  }
  if (v.add_bos && v.bos >= 0) ids.insert(ids.begin(), v.bos);
  if (v.add_eos && v.eos >= 0) ids.push_back(v.eos);
}

}  // namespace banter::text
