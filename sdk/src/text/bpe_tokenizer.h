// The tokenizer of every supported vocabulary: byte-level BPE and SentencePiece-style BPE.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_pair.h"
#include "text/hash_tables.h"
#include "text/normalizer.h"
#include "text/special_matcher.h"
#include "text/splitter.h"
#include "text/tokenizer.h"
#include "text/trusted_text.h"

namespace banter::text {

class BpeTokenizer final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> create(formats::Vocabulary vocabulary);

  void encode(std::string_view text, bool parse_special, std::vector<TokenId>& out) const override;
  void encode(std::span<const Segment> segments, std::vector<TokenId>& out) const override;
  void add_special(std::vector<TokenId>& ids) const override;
  std::string_view token_bytes(TokenId id, bool special) const override;
  std::string decode(std::span<const TokenId> ids, bool special) const override;
  bool is_control(TokenId id) const override;
  bool is_end_of_generation(TokenId id) const override;
  bool is_unused(TokenId id) const override;
  TokenId find(std::string_view stored_text) const override;
  const formats::Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  // Memory of one encode call.
  struct Scratch {
    explicit Scratch(size_t text_bytes) : split(text_bytes) {}
    SplitScratch split;
    MergeScratch merge;
    std::vector<Symbol> symbols;
    TrustedText normalized;
    std::string prepared;
    bool unknown_open = false;  // the last thing emitted was an unknown token that may absorb the next
  };

  explicit BpeTokenizer(formats::Vocabulary vocabulary)
      : vocabulary_(std::move(vocabulary)), normalizer_(vocabulary_.normalizer) {}

  // Creation (bpe_tokenizer_create.cpp).
  Result<void> check_ids() const;
  void mark_protected();
  Result<void> build_bytes();
  Result<void> build_index();
  Result<void> build_merges();
  Result<void> build_specials();

  // Encoding (bpe_tokenizer.cpp). Offsets are bytes of the text at hand.
  bool valid(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < vocabulary_.tokens.size(); }
  formats::TokenKind kind(TokenId id) const { return vocabulary_.tokens[static_cast<size_t>(id)].kind; }
  std::string_view bytes_of(TokenId id) const {
    const auto i = static_cast<size_t>(id);
    return std::string_view(bytes_).substr(byte_offsets_[i], byte_offsets_[i + 1] - byte_offsets_[i]);
  }
  // What text must say to become the token: raw bytes, or SentencePiece's spelling with U+2581.
  std::string_view piece_text(TokenId id) const {
    return vocabulary_.model == formats::VocabularyModel::kByteLevelBpe
               ? bytes_of(id)
               : std::string_view(vocabulary_.tokens[static_cast<size_t>(id)].text);
  }
  bool has_byte_tokens(std::string_view character) const;
  TokenId find_piece(std::string_view bytes) const;
  void encode_text(const TrustedText& text, std::vector<TokenId>& out) const;
  template <class OnText>
  void partition(const SpecialMatcher& matcher, std::string_view text, const TrustMap& trust, size_t trust_offset,
                 std::vector<TokenId>& out, OnText&& on_text) const;
  void encode_stretch(std::string_view text, const TrustMap& trust, size_t offset, Scratch& scratch,
                      std::vector<TokenId>& out) const;
  void encode_plain(std::string_view text, bool at_start, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_piece(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void make_symbols(std::string_view word, std::vector<Symbol>& symbols) const;
  void merge(std::string_view word, Scratch& scratch) const;
  void emit_unknown(std::string_view character, Scratch& scratch, std::vector<TokenId>& out) const;
  bool merges_to_itself(TokenId id, Scratch& scratch) const;

  formats::Vocabulary vocabulary_;
  Normalizer normalizer_;
  Splitter splitter_;
  SpecialMatcher raw_specials_, normalized_specials_;
  std::vector<bool> protected_;  // per id: spelled in untrusted text it is ordinary text, and merges never make it
  std::string bytes_;            // what each token stands for, one after the other
  std::vector<uint32_t> byte_offsets_;       // size() + 1
  std::array<int32_t, 256> byte_tokens_{};   // byte-level: the byte's symbol; SentencePiece: <0xHH>; -1: none
  std::array<int32_t, 128> ascii_tokens_{};  // SentencePiece: the token of an ASCII character, or -1
  TokenIndex pieces_;                        // tokens that text can become, by the bytes that are matched
  TokenIndex stored_;                        // all tokens, by stored text
  MergeTable merges_;
  std::vector<uint32_t> score_ranks_;  // per id, when merging by score
  uint32_t max_piece_bytes_ = 0;
  bool split_words_ = false;   // long pieces may be cut where no token spans the border
  std::bitset<65536> joints_;  // (last byte, first byte) of characters adjacent in some token
  // Per id: whether merging the token's own text gives that token. 0 = not known yet, 1 = yes, 2 = no. Filled on use:
  // every thread computes the same value, so the race is harmless.
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
};

}  // namespace banter::text
