// What emulated device code calls: the part of the emulator that device.h's and CUDA's built-ins are written with.
// Operands travel by value, so that a kernel's fragments stay registers and need no checking.
#pragma once

#include <cstddef>
#include <cstdint>

namespace banter::cuda_emulator {

/** Where a collective stands in the source: lanes of one collective must agree. */
struct Place {
  const char* file;
  int line;
};

[[gnu::const]] std::byte* shared_memory_of_block(size_t bytes);

enum class BarrierReduction { kNone, kAnd, kOr, kCount };
int block_barrier(BarrierReduction reduction, int predicate, Place place);

enum class Shuffle { kIndex, kUp, kDown, kXor };
uint64_t warp_shuffle(Shuffle shuffle, uint32_t mask, uint64_t value, int operand, int width, Place place);
enum class WarpReduction { kSync, kBallot, kAny, kAll, kAddS, kAddU, kMinS, kMinU, kMaxS, kMaxU, kAnd, kOr, kXor };
uint32_t warp_reduce(WarpReduction reduction, uint32_t mask, uint32_t value, Place place);

struct Words2 {
  uint32_t x, y;
};
struct Words4 {
  uint32_t x, y, z, w;
};
enum class Matrix { kHalf, kBfloat, kBytes16, kBytes32 };
Words4 warp_matrix_product(Matrix kind, Words4 d, Words4 a, Words2 b, Place place);
Words4 warp_load_matrices(const void* shared_row, bool transposed, Place place);

void async_copy(void* shared, const void* global, bool valid);
void async_commit();
void async_wait(int groups);

enum class Atomic { kAdd, kSub, kMin, kMax, kAnd, kOr, kXor, kExchange };
template <class T>
T atomic(Atomic op, T* address, T value);
template <class T>
T atomic_swap(T* address, T compare, T value);

[[noreturn]] void trap(const char* what);

}  // namespace banter::cuda_emulator
