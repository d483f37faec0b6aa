// Warp collectives, asynchronous copies and atomics, as the last lane to arrive or the thread itself carries them out.
#include <bit>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "cuda_emulator/access.h"
#include "cuda_emulator/block.h"
#include "cuda_emulator/card.h"

namespace banter::cuda_emulator {
namespace {

Slot& my_slot(Block& block) {
  return block.warp().slots[block.thread().lane];
}

template <class Each>
void for_lanes(uint32_t mask, Each&& each) {
  for (; mask != 0; mask &= mask - 1) each(std::countr_zero(mask));
}

/** in[0] value, in[1] source lane. */
void complete_shuffle(Warp& warp, uint32_t mask) {
  for_lanes(mask, [&](int lane) {
    const auto source = static_cast<uint32_t>(warp.slots[lane].in[1]);
    warp.slots[lane].out[0] = warp.slots[source].in[0];
    warp.slots[lane].out[1] = mask >> source & 1u;
  });
}

template <class T, class Fold>
void fold(Warp& warp, uint32_t mask, T start, Fold&& f) {
  for_lanes(mask, [&](int lane) { start = f(start, static_cast<T>(static_cast<uint32_t>(warp.slots[lane].in[0]))); });
  for_lanes(mask, [&](int lane) { warp.slots[lane].out[0] = static_cast<uint32_t>(start); });
}

void complete_reduce(Warp& warp, uint32_t mask) {
  const auto smaller = [](auto a, auto b) { return a < b ? a : b; };
  const auto larger = [](auto a, auto b) { return a < b ? b : a; };
  const auto plus = [](uint32_t a, uint32_t b) { return a + b; };
  switch (static_cast<WarpReduction>(warp.slots[std::countr_zero(mask)].in[1])) {
    case WarpReduction::kSync:
      // Orders the memory of the lanes; of a part of the warp only the values are ordered here (see README.md).
      if (mask == warp.lanes) ++warp.epoch;
      break;
    case WarpReduction::kBallot: {
      uint32_t bits = 0;
      for_lanes(mask, [&](int lane) { bits |= static_cast<uint32_t>(warp.slots[lane].in[0] != 0) << lane; });
      for_lanes(mask, [&](int lane) { warp.slots[lane].out[0] = bits; });
      break;
    }
    case WarpReduction::kAny:
      return fold<uint32_t>(warp, mask, 0, [](uint32_t a, uint32_t b) { return a | (b != 0); });
    case WarpReduction::kAll:
      return fold<uint32_t>(warp, mask, 1, [](uint32_t a, uint32_t b) { return a & (b != 0); });
    case WarpReduction::kAddS:
    case WarpReduction::kAddU:
      return fold<uint32_t>(warp, mask, 0, plus);
    case WarpReduction::kMinS:
      return fold<int32_t>(warp, mask, INT32_MAX, smaller);
    case WarpReduction::kMinU:
      return fold<uint32_t>(warp, mask, UINT32_MAX, smaller);
    case WarpReduction::kMaxS:
      return fold<int32_t>(warp, mask, INT32_MIN, larger);
    case WarpReduction::kMaxU:
      return fold<uint32_t>(warp, mask, 0, larger);
    case WarpReduction::kAnd:
      return fold<uint32_t>(warp, mask, UINT32_MAX, [](uint32_t a, uint32_t b) { return a & b; });
    case WarpReduction::kOr:
      return fold<uint32_t>(warp, mask, 0, [](uint32_t a, uint32_t b) { return a | b; });
    case WarpReduction::kXor:
      return fold<uint32_t>(warp, mask, 0, [](uint32_t a, uint32_t b) { return a ^ b; });
  }
}

// ---------------------------------------------------------------- matrix products
// in[0..1] D, in[2..3] A, in[4] B, as device.h's fragments. Sums of floats: exact products added to D one after another
// in order of k, in double, then rounded: nearer to the exact value than a card's.

uint32_t word(const Slot& slot, int i) {
  return static_cast<uint32_t>(slot.in[i / 2] >> (i % 2 * 32));
}
void set_word(Slot& slot, int i, uint32_t value) {
  slot.out[i / 2] = (slot.out[i / 2] & ~(uint64_t{0xFFFFFFFF} << (i % 2 * 32))) | uint64_t{value} << (i % 2 * 32);
}
constexpr int kA = 4, kB = 8;  // first words of A and B in `in`

const float* half_table() {
  static const auto* const table = [] {
    auto* t = new float[65536];
    for (uint32_t i = 0; i < 65536; ++i) t[i] = banter::half_to_float(static_cast<uint16_t>(i));
    return t;
  }();
  return table;
}

template <bool kIsHalf>
void complete_floats(Warp& warp, uint32_t /*mask*/) {
  static const float* const halves = half_table();
  const auto convert = [](uint32_t bits) { return kIsHalf ? halves[bits & 0xFFFF] : std::bit_cast<float>(bits << 16); };
  float a[16][16], b[16][8];
  double sum[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4, t = lane % 4;
    const Slot& slot = warp.slots[lane];
    for (int i = 0; i < 4; ++i) {
      const uint32_t pair = word(slot, kA + i);
      const int row = g + i % 2 * 8, k = 2 * t + i / 2 * 8;
      a[row][k] = convert(pair);
      a[row][k + 1] = convert(pair >> 16);
      sum[g + i / 2 * 8][2 * t + i % 2] = std::bit_cast<float>(word(slot, i));
    }
    for (int i = 0; i < 2; ++i) {
      const uint32_t pair = word(slot, kB + i);
      b[2 * t + 8 * i][g] = convert(pair);
      b[2 * t + 8 * i + 1][g] = convert(pair >> 16);
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int col = 0; col < 8; ++col) sum[row][col] += static_cast<double>(a[row][k] * b[k][col]);
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      set_word(warp.slots[lane], i, std::bit_cast<uint32_t>(static_cast<float>(sum[g + i / 2 * 8][2 * t + i % 2])));
    }
  }
}

template <int kK>  // 16 or 32
void complete_bytes(Warp& warp, uint32_t /*mask*/) {
  int16_t a[16][kK], b[8][kK];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4, t = lane % 4;
    const Slot& slot = warp.slots[lane];
    for (int i = 0; i < kK / 8; ++i) {
      for (int j = 0; j < 4; ++j) {
        a[g + i % 2 * 8][i / 2 * 16 + 4 * t + j] = static_cast<uint8_t>(word(slot, kA + i) >> 8 * j);
      }
    }
    for (int i = 0; i < kK / 16; ++i) {
      for (int j = 0; j < 4; ++j) b[g][i * 16 + 4 * t + j] = static_cast<int8_t>(word(slot, kB + i) >> 8 * j);
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      int32_t sum = 0;
      for (int k = 0; k < kK; ++k) sum += a[g + i / 2 * 8][k] * b[2 * t + i % 2][k];
      set_word(warp.slots[lane], i, word(warp.slots[lane], i) + static_cast<uint32_t>(sum));
    }
  }
}

template <bool kTransposed>
void complete_load_matrices(Warp& warp, uint32_t /*mask*/) {
  uint16_t matrix[4][8][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    std::memcpy(matrix[lane / 8][lane % 8], reinterpret_cast<const void*>(warp.slots[lane].in[0]), 16);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const uint32_t low = kTransposed ? matrix[i][2 * t][g] : matrix[i][g][2 * t];
      const uint32_t high = kTransposed ? matrix[i][2 * t + 1][g] : matrix[i][g][2 * t + 1];
      set_word(warp.slots[lane], i, low | high << 16);
    }
  }
}

}  // namespace

uint64_t warp_shuffle(Shuffle shuffle, uint32_t mask, uint64_t value, int operand, int width, Place place) {
  static constexpr const char* kNames[] = {"__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync"};
  Block& block = *running_block;
  const int lane = block.thread().lane, start = lane & ~(width - 1);
  int source = lane;
  switch (shuffle) {
    case Shuffle::kIndex:
      source = start + (operand & (width - 1));
      break;
    case Shuffle::kUp:
      source = lane - operand < start ? lane : lane - operand;
      break;
    case Shuffle::kDown:
      source = lane + operand >= start + width ? lane : lane + operand;
      break;
    case Shuffle::kXor:
      source = (lane ^ operand) >= start + width ? lane : lane ^ operand;
      break;
  }
  Slot& slot = my_slot(block);
  slot.in[0] = value;
  slot.in[1] = static_cast<uint64_t>(source & 31);
  block.gather(kNames[static_cast<int>(shuffle)], complete_shuffle, static_cast<int>(shuffle), mask, place);
  if (slot.out[1] == 0) {
    block.fault(FaultKind::kShuffleSource, 0, "%s of %s:%d: lane %d reads lane %d, which is not in the mask",
                kNames[static_cast<int>(shuffle)], file_of(place), place.line, lane, source);
  }
  return slot.out[0];
}

uint32_t warp_reduce(WarpReduction reduction, uint32_t mask, uint32_t value, Place place) {
  Block& block = *running_block;
  const char* name = "__syncwarp";
  if (reduction != WarpReduction::kSync) name = reduction <= WarpReduction::kAll ? "a vote" : "__reduce_…_sync";
  if (reduction > WarpReduction::kAll && code_capability() < 80) {
    block.fault(FaultKind::kUnsupported, 0, "__reduce_…_sync needs compute capability 8.0");
  }
  Slot& slot = my_slot(block);
  slot.in[0] = value;
  slot.in[1] = static_cast<uint64_t>(reduction);
  block.gather(name, complete_reduce, static_cast<int>(reduction), mask, place);
  return static_cast<uint32_t>(slot.out[0]);
}

Words4 warp_matrix_product(Matrix kind, Words4 d, Words4 a, Words2 b, Place place) {
  Block& block = *running_block;
  if (kind == Matrix::kBfloat && code_capability() < 80) {
    block.fault(FaultKind::kUnsupported, 0, "mma of bfloat16 needs compute capability 8.0");
  }
  Slot& slot = my_slot(block);
  slot.in[0] = d.x | static_cast<uint64_t>(d.y) << 32;
  slot.in[1] = d.z | static_cast<uint64_t>(d.w) << 32;
  slot.in[2] = a.x | static_cast<uint64_t>(a.y) << 32;
  slot.in[3] = a.z | static_cast<uint64_t>(a.w) << 32;
  slot.in[4] = b.x | static_cast<uint64_t>(b.y) << 32;
  static constexpr Complete kCompletes[] = {complete_floats<true>, complete_floats<false>, complete_bytes<16>,
                                            complete_bytes<32>};
  block.gather("mma", kCompletes[static_cast<int>(kind)], static_cast<int>(kind), 0xFFFFFFFFu, place);
  return {static_cast<uint32_t>(slot.out[0]), static_cast<uint32_t>(slot.out[0] >> 32),
          static_cast<uint32_t>(slot.out[1]), static_cast<uint32_t>(slot.out[1] >> 32)};
}

Words4 warp_load_matrices(const void* shared_row, bool transposed, Place place) {
  Block& block = *running_block;
  check_access(block, shared_row, 16, Use::kReadShared, 16);
  Slot& slot = my_slot(block);
  slot.in[0] = reinterpret_cast<uint64_t>(shared_row);
  block.gather("ldmatrix", transposed ? complete_load_matrices<true> : complete_load_matrices<false>, 0, 0xFFFFFFFFu,
               place);
  return {static_cast<uint32_t>(slot.out[0]), static_cast<uint32_t>(slot.out[0] >> 32),
          static_cast<uint32_t>(slot.out[1]), static_cast<uint32_t>(slot.out[1] >> 32)};
}

// ---------------------------------------------------------------- asynchronous copies

namespace {
void arrive(Block& block, const AsyncCopy& copy) {
  if (copy.from != nullptr) {
    std::memcpy(copy.to, copy.from, 16);
  } else {
    std::memset(copy.to, 0, 16);
  }
  block.shadow().arrive(static_cast<size_t>(copy.to - block.shared()), 16, block.stamp());
}
}  // namespace

void async_copy(void* shared, const void* global, bool valid) {
  Block& block = *running_block;
  Thread& thread = block.thread();
  const AsyncCopy copy = {static_cast<std::byte*>(shared), valid ? static_cast<const std::byte*>(global) : nullptr,
                          thread.open_group};
  if (valid) check_access(block, global, 16, Use::kReadGlobal, 16);
  if (code_capability() < 80) {  // no such instruction: device.h loads and stores
    check_access(block, shared, 16, Use::kWriteShared, 16);
    return arrive(block, copy);
  }
  check_access(block, shared, 16, Use::kCopyToShared, 16);
  std::memset(shared, 0xFF, 16);  // what a read that came too early would see
  thread.copies.push_back(copy);
}

void async_commit() {
  ++running_block->thread().open_group;
}

void async_wait(int groups) {
  Block& block = *running_block;
  Thread& thread = block.thread();
  size_t kept = 0;
  for (const AsyncCopy& copy : thread.copies) {
    if (copy.group >= thread.open_group - groups) {
      thread.copies[kept++] = copy;
    } else {
      arrive(block, copy);
    }
  }
  thread.copies.resize(kept);
}

// ---------------------------------------------------------------- atomics

/** Integers wrap around. */
template <class T>
T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <class T>
T negative(T a) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(std::make_unsigned_t<T>{0} - static_cast<std::make_unsigned_t<T>>(a));
  } else {
    return -a;
  }
}

template <class T>
T atomic(Atomic op, T* address, T value) {
  check_access(*running_block, address, sizeof(T), Use::kAtomic, sizeof(T));
  const T old = *address;
  switch (op) {
    case Atomic::kAdd:
      *address = plus(old, value);
      break;
    case Atomic::kSub:
      *address = plus(old, negative(value));
      break;
    case Atomic::kMin:
      *address = value < old ? value : old;
      break;
    case Atomic::kMax:
      *address = old < value ? value : old;
      break;
    case Atomic::kExchange:
      *address = value;
      break;
    default:
      if constexpr (std::is_integral_v<T>) {
        *address = op == Atomic::kAnd ? (old & value) : op == Atomic::kOr ? (old | value) : (old ^ value);
      }
  }
  return old;
}

template <class T>
T atomic_swap(T* address, T compare, T value) {
  check_access(*running_block, address, sizeof(T), Use::kAtomic, sizeof(T));
  const T old = *address;
  if (old == compare) *address = value;
  return old;
}

template int atomic(Atomic, int*, int);
template unsigned atomic(Atomic, unsigned*, unsigned);
template unsigned long long atomic(Atomic, unsigned long long*, unsigned long long);
template float atomic(Atomic, float*, float);
template int atomic_swap(int*, int, int);
template unsigned atomic_swap(unsigned*, unsigned, unsigned);
template unsigned long long atomic_swap(unsigned long long*, unsigned long long, unsigned long long);

}  // namespace banter::cuda_emulator
