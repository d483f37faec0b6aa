// What code that was compiled with -fsanitize=thread,alignment,bounds,shift calls, here in the place of the sanitizers'
// run-time libraries: every access to memory comes by. Code that runs on the host passes through.
#include <atomic>
#include <cstring>

#include "cuda_emulator/access.h"
#include "cuda_emulator/block.h"
#include "cuda_emulator/card.h"

namespace banter::cuda_emulator {

#if defined(BANTER_EMULATOR_HOOKS)

bool memory_checks() {
  return true;
}

namespace {

[[gnu::noinline]] void host_touches_device(void* address) {
  const std::lock_guard lock(card().mutex);
  report_host(FaultKind::kDeviceMemory, address, "host code reads or writes device memory");
}

template <size_t kBytes, Use kUse>
inline void access(void* address) {
  Block* const block = running_block;
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (block == nullptr) {
    if (DeviceMemory::is_device(at)) host_touches_device(address);
    return;
  }
  if (at - block->stack_low < kFiberStack) return;
  check_access(*block, address, kBytes, kUse, kBytes < 8 ? kBytes : 8);
}

void access_range(void* address, size_t bytes, Use use) {
  Block* const block = running_block;
  if (block == nullptr) {
    if (DeviceMemory::is_device(reinterpret_cast<uintptr_t>(address))) host_touches_device(address);
    return;
  }
  if (bytes != 0) check_access(*block, address, bytes, use, 1);
}

struct SourceLocation {
  const char* file;
  uint32_t line, column;
};

void undefined(FaultKind kind, const SourceLocation& at, uintptr_t address, const char* what) {
  const char* const file = file_of({at.file, 0});
  if (running_block != nullptr) running_block->fault(kind, address, "%s at %s:%u", what, file, at.line);
  const std::lock_guard lock(card().mutex);
  report_host(kind, reinterpret_cast<void*>(address),
              std::string(what) + " at " + file + ":" + std::to_string(at.line));
}

}  // namespace

#else

bool memory_checks() {
  return false;
}

#endif

}  // namespace banter::cuda_emulator

#if defined(BANTER_EMULATOR_HOOKS)

using banter::cuda_emulator::access;
using banter::cuda_emulator::access_range;
using banter::cuda_emulator::Use;

extern "C" {

#define BANTER_HOOK(bytes)                      \
  void __tsan_read##bytes(void* p) {            \
    access<bytes, Use::kRead>(p);               \
  }                                             \
  void __tsan_write##bytes(void* p) {           \
    access<bytes, Use::kWrite>(p);              \
  }                                             \
  void __tsan_volatile_read##bytes(void* p) {   \
    access<bytes, Use::kRead>(p);               \
  }                                             \
  void __tsan_volatile_write##bytes(void* p) {  \
    access<bytes, Use::kWrite>(p);              \
  }                                             \
  void __tsan_unaligned_read##bytes(void* p) {  \
    access_range(p, bytes, Use::kRead);         \
  }                                             \
  void __tsan_unaligned_write##bytes(void* p) { \
    access_range(p, bytes, Use::kWrite);        \
  }
BANTER_HOOK(1)
BANTER_HOOK(2)
BANTER_HOOK(4)
BANTER_HOOK(8)
BANTER_HOOK(16)
void __tsan_read_range(void* p, unsigned long bytes) {
  access_range(p, bytes, Use::kRead);
}
void __tsan_write_range(void* p, unsigned long bytes) {
  access_range(p, bytes, Use::kWrite);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** p, void*) {
  access<8, Use::kWrite>(p);
}
void __tsan_vptr_read(void** p) {
  access<8, Use::kRead>(p);
}
void __tsan_acquire(void*) {}
void __tsan_release(void*) {}

// Clang's names for these three.
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  access_range(const_cast<void*>(from), bytes, Use::kRead);
  access_range(to, bytes, Use::kWrite);
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  access_range(const_cast<void*>(from), bytes, Use::kRead);
  access_range(to, bytes, Use::kWrite);
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, size_t bytes) {
  access_range(to, bytes, Use::kWrite);
  return std::memset(to, value, bytes);
}

// Atomics of host code (kernels have their own). The strongest order serves every order.
#define BANTER_FETCH(bits, T, name, builtin)                          \
  T __tsan_atomic##bits##_fetch_##name(volatile T* p, T value, int) { \
    return builtin(p, value, __ATOMIC_SEQ_CST);                       \
  }
#define BANTER_ATOMICS(bits, T)                                                                        \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                                             \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                       \
  }                                                                                                    \
  void __tsan_atomic##bits##_store(volatile T* p, T value, int) {                                      \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                      \
  }                                                                                                    \
  T __tsan_atomic##bits##_exchange(volatile T* p, T value, int) {                                      \
    return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                                            \
  }                                                                                                    \
  BANTER_FETCH(bits, T, add, __atomic_fetch_add)                                                       \
  BANTER_FETCH(bits, T, sub, __atomic_fetch_sub)                                                       \
  BANTER_FETCH(bits, T, and, __atomic_fetch_and)                                                       \
  BANTER_FETCH(bits, T, or, __atomic_fetch_or)                                                         \
  BANTER_FETCH(bits, T, xor, __atomic_fetch_xor)                                                       \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected, T value, int, int) {  \
    return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }                                                                                                    \
  bool __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* expected, T value, int, int) {    \
    return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
BANTER_ATOMICS(8, uint8_t)
BANTER_ATOMICS(16, uint16_t)
BANTER_ATOMICS(32, uint32_t)
BANTER_ATOMICS(64, uint64_t)
void __tsan_atomic_thread_fence(int) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

// Undefined behaviour: each gets a description of the place first.
struct BanterMismatch {
  banter::cuda_emulator::SourceLocation at;
  const void* type;
  uint8_t log_alignment, kind;
};
void __ubsan_handle_type_mismatch_v1(BanterMismatch* data, uintptr_t address) {
  using namespace banter::cuda_emulator;
  undefined(FaultKind::kMisaligned, data->at, address, "an address that is not aligned to its type");
}
void __ubsan_handle_out_of_bounds(banter::cuda_emulator::SourceLocation* at, uintptr_t) {
  using namespace banter::cuda_emulator;
  undefined(FaultKind::kIndexOutOfBounds, *at, 0, "an index outside its array");
}
void __ubsan_handle_shift_out_of_bounds(banter::cuda_emulator::SourceLocation* at, uintptr_t, uintptr_t) {
  using namespace banter::cuda_emulator;
  undefined(FaultKind::kIndexOutOfBounds, *at, 0, "a shift by too much");
}

}  // extern "C"

#endif
