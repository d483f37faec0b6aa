// What a sampler remembers of the tokens it was shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sampling/sampler.h"

namespace banter::sampling {

/** The newest `capacity` tokens, with the state that each left behind, so that tokens can be taken back. */
class TokenHistory {
 public:
  struct Entry {
    TokenId token;
    int32_t since_breaker;  // tokens since the end of the last DRY breaker, this one included; 0 at its last token
    float mirostat_mu;      // after this token
  };

  explicit TokenHistory(size_t capacity) : ring_(capacity) {}
  size_t size() const { return size_; }
  size_t capacity() const { return ring_.size(); }
  /** `age` 0 is the newest. Precondition: age < size(). */
  const Entry& newest(size_t age) const { return ring_[(end_ + ring_.size() - 1 - age) % ring_.size()]; }
  /** Forgets the oldest when full. Precondition: capacity() > 0. */
  void push(const Entry& entry) {
    ring_[end_] = entry;
    end_ = (end_ + 1) % ring_.size();
    if (size_ < ring_.size()) ++size_;
  }
  /** Removes the newest. Precondition: size() > 0. */
  void pop() {
    end_ = (end_ + ring_.size() - 1) % ring_.size();
    --size_;
  }

 private:
  std::vector<Entry> ring_;
  size_t end_ = 0;  // where the next goes
  size_t size_ = 0;
};

/** How often each token occurs among the last few: open addressing with linear probing, no allocation after
 *  construction. */
class TokenCounts {
 public:
  struct Slot {
    TokenId token;
    int32_t count;  // 0 = free
  };

  /** @param most_distinct  most tokens with a count at any time */
  explicit TokenCounts(size_t most_distinct);
  void add(TokenId token);
  /** Precondition: the token was added more often than removed. */
  void remove(TokenId token);
  /** Every slot, free ones included, in no particular order. */
  const std::vector<Slot>& slots() const { return slots_; }

 private:
  size_t home(TokenId token) const;
  size_t find(TokenId token) const;
  size_t mask() const { return slots_.size() - 1; }
  std::vector<Slot> slots_;
};

}  // namespace banter::sampling
