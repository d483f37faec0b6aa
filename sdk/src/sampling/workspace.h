// Scratch memory of the sampler chain.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "sampling/sampler.h"

namespace banter::sampling {

/** A token that is still in the running. `weight` is proportional to its probability. */
struct Candidate {
  TokenId id;
  float logit;
  float weight;
};

/** Logits are looked at in blocks of this many: small enough that the blocks that hold the best tokens are few to scan,
 *  large enough that the list of block maxima is short (151 936 logits: 1187 blocks). */
inline constexpr size_t kBlock = 128;

class Workspace {
 public:
  /** Makes room; the only place that allocates. */
  void reserve(size_t vocabulary_size, size_t dry_window) {
    const size_t blocks = (vocabulary_size + kBlock - 1) / kBlock;
    candidates.reserve(vocabulary_size);
    selection.reserve(vocabulary_size);
    probabilities.reserve(vocabulary_size);
    grow(block_max, blocks);
    block_order.reserve(blocks);
    grow(block_sum, blocks);
    sparse.resize(std::max(sparse.size(), vocabulary_size), -std::numeric_limits<float>::infinity());
    if (dry_window > 0) {
      grow(dry_longest, vocabulary_size);
      dry_reversed.reserve(dry_window);
      dry_match.reserve(dry_window);
    }
  }

  std::vector<Candidate> candidates;  // ids ascending
  std::vector<Candidate> selection;   // copy that selection algorithms may permute
  std::vector<TokenProbability> probabilities;
  std::vector<float> sparse;         // [vocabulary] all -inf between calls
  std::vector<float> block_max;      // [blocks] largest logit of each block, -inf where there is none
  std::vector<float> block_order;    // [blocks] permuted copy
  std::vector<double> block_sum;     // [blocks]
  std::vector<int32_t> dry_longest;  // [vocabulary] all 0 between calls
  std::vector<TokenId> dry_reversed;
  std::vector<int32_t> dry_match;

 private:
  template <class T>
  static void grow(std::vector<T>& v, size_t size) {
    v.resize(std::max(v.size(), size));
  }
};

}  // namespace banter::sampling
