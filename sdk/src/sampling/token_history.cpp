#include "sampling/token_history.h"

#include <bit>

namespace banter::sampling {

TokenCounts::TokenCounts(size_t most_distinct) : slots_(std::bit_ceil(2 * most_distinct + 1), Slot{0, 0}) {}

size_t TokenCounts::home(TokenId token) const {
  return (static_cast<uint32_t>(token) * 2654435769u >> 7) & mask();  // 2^32 / golden ratio spreads neighbouring ids
}

size_t TokenCounts::find(TokenId token) const {
  size_t i = home(token);
  while (slots_[i].count != 0 && slots_[i].token != token) i = (i + 1) & mask();
  return i;
}

void TokenCounts::add(TokenId token) {
  Slot& slot = slots_[find(token)];
  slot.token = token;
  ++slot.count;
}

void TokenCounts::remove(TokenId token) {
  size_t hole = find(token);
  if (slots_[hole].count == 0 || --slots_[hole].count != 0) return;
  // Close the gap, so that searches may stop at the first free slot: move up what would no longer be found.
  for (size_t i = (hole + 1) & mask(); slots_[i].count != 0; i = (i + 1) & mask()) {
    if (((i - home(slots_[i].token)) & mask()) < ((i - hole) & mask())) continue;
    slots_[hole] = slots_[i];
    slots_[i].count = 0;
    hole = i;
  }
}

}  // namespace banter::sampling
