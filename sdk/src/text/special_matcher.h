// Finds special tokens in text: leftmost, then longest.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/hash_tables.h"

namespace banter::text {

/** A set of spellings with the ids they stand for, as a trie over bytes. Built once, then read only. */
class SpecialMatcher {
 public:
  struct Entry {
    std::string_view text;  // not empty, at most kMaxSpecialBytes; needed only while building
    int32_t id;
  };
  static constexpr size_t kMaxSpecialBytes = 1024;  // bounds the time a hostile pair of model and text can take

  SpecialMatcher() = default;
  explicit SpecialMatcher(const std::vector<Entry>& entries) {
    size_t bytes = 0;
    for (const Entry& entry : entries) bytes += entry.text.size();
    edges_.reserve(bytes);
    ids_.assign(1, -1);
    for (const Entry& entry : entries) insert(entry);
  }
  bool empty() const { return ids_.size() <= 1; }
  /** Whether a spelling can start with this byte. */
  bool may_start(char byte) const { return starts_[static_cast<uint8_t>(byte)]; }

  struct Match {
    int32_t id = -1;
    size_t size = 0;
  };
  /** The longest spelling at the start of `text` for which accept(id, size) holds. */
  template <class Accept>
  Match longest(std::string_view text, Accept&& accept) const {
    Match best;
    int32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = edges_.find(node, static_cast<uint8_t>(text[i])).id;
      if (node < 0) break;
      const int32_t id = ids_[static_cast<size_t>(node)];
      if (id >= 0 && accept(id, i + 1)) best = {id, i + 1};
    }
    return best;
  }

 private:
  void insert(const Entry& entry) {
    int32_t node = 0;
    for (const char c : entry.text) {
      const auto byte = static_cast<uint8_t>(c);
      int32_t next = edges_.find(node, byte).id;
      if (next < 0) {
        next = static_cast<int32_t>(ids_.size());
        ids_.push_back(-1);
        edges_.insert(node, byte, {0, next});
      }
      node = next;
    }
    starts_[static_cast<uint8_t>(entry.text[0])] = true;
    if (ids_[static_cast<size_t>(node)] < 0) ids_[static_cast<size_t>(node)] = entry.id;
  }

  MergeTable edges_;          // (node, byte) → node
  std::vector<int32_t> ids_;  // per node: the token it completes, or -1
  std::array<bool, 256> starts_{};
};

}  // namespace banter::text
