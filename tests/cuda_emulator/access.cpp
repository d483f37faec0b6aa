#include "cuda_emulator/access.h"

#include "cuda_emulator/card.h"

namespace banter::cuda_emulator {
namespace {

[[noreturn]] void shared_fault(Block& block, SharedFault found, uintptr_t address, size_t offset, Use use,
                               uint16_t other) {
  const char* const verb = use == Use::kRead || use == Use::kReadShared ? "read" : "write";
  const uint3 t = block.thread_at(other).index;
  switch (found) {
    case SharedFault::kUninitialised:
      block.fault(FaultKind::kUninitialised, address, "%s of byte %zu of shared memory: nothing was written there",
                  verb, offset);
    case SharedFault::kRaceWithWriter:
    case SharedFault::kRaceWithReader:
      block.fault(FaultKind::kRace, address,
                  "%s of byte %zu of shared memory: thread %u,%u,%u %s it and nothing orders the two", verb, offset,
                  t.x, t.y, t.z, found == SharedFault::kRaceWithWriter ? "wrote" : "read");
    default:
      block.fault(FaultKind::kAsyncNotWaited, address,
                  "%s of byte %zu of shared memory: an asynchronous copy of thread %u,%u,%u is under way there", verb,
                  offset, t.x, t.y, t.z);
  }
}

void check_shared(Block& block, uintptr_t address, size_t bytes, Use use) {
  const size_t offset = address - reinterpret_cast<uintptr_t>(block.shared());
  const size_t size = block.launch().shared_bytes;
  if (offset + bytes > size) {
    block.fault(FaultKind::kSharedBounds, address, "%zu bytes at byte %zu of %zu bytes of shared memory", bytes, offset,
                size);
  }
  if (!config().check_shared_memory || !memory_checks()) return;
  uint16_t other = block.thread().number;
  SharedFault found = SharedFault::kNone;
  switch (use) {
    case Use::kRead:
    case Use::kReadShared:
    case Use::kReadGlobal:
      found = block.shadow().read(offset, bytes, block.stamp(), &other);
      break;
    case Use::kWrite:
    case Use::kWriteShared:
      found = block.shadow().write(offset, bytes, block.stamp(), &other);
      break;
    case Use::kAtomic:
      found = block.shadow().atomic(offset, bytes, block.stamp(), &other);
      break;
    case Use::kCopyToShared:
      found = block.shadow().start_copy(offset, bytes, block.stamp(), &other);
      break;
  }
  if (found != SharedFault::kNone) shared_fault(block, found, address, offset, use, other);
}

bool is_builtin(uintptr_t address) {
  const auto in = [address](const auto& variable) {
    return address - reinterpret_cast<uintptr_t>(&variable) < sizeof variable;
  };
  return in(threadIdx) || in(blockIdx) || in(blockDim) || in(gridDim);
}

}  // namespace

void check_access(Block& block, const void* pointer, size_t bytes, Use use, size_t alignment) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  if (address - block.stack_low < kFiberStack && use <= Use::kWrite) return;
  if (address % alignment != 0) {
    block.fault(FaultKind::kMisaligned, address, "%zu bytes at an address that is no multiple of %zu", bytes,
                alignment);
  }
  const bool only_shared = use >= Use::kReadShared && use != Use::kReadGlobal;
  if (address - reinterpret_cast<uintptr_t>(block.shared()) < kSharedCapacity && use != Use::kReadGlobal) {
    return check_shared(block, address, bytes, use);
  }
  const DeviceMemory& memory = card().memory;
  if (!only_shared && memory.contains(address)) {
    const DeviceMemory::State state = memory.state(address, bytes);
    if (state == DeviceMemory::State::kLive) return;
    char text[160];
    block.fault(state == DeviceMemory::State::kFreed ? FaultKind::kUseAfterFree : FaultKind::kOutOfBounds, address,
                "%zu bytes at %s", bytes,
                state == DeviceMemory::State::kFreed ? "memory that was freed" : memory.describe(address, text));
  }
  if (use == Use::kRead && is_builtin(address)) return;
  const uintptr_t arguments = reinterpret_cast<uintptr_t>(block.launch().call.arguments.get());
  const bool constant = address - arguments < block.launch().argument_bytes || is_constant(address);
  if (use == Use::kRead && constant) return;
  if (constant) block.fault(FaultKind::kWriteToConstant, address, "%s", "a write to an argument or a constant");
  block.fault(only_shared ? FaultKind::kSharedBounds : FaultKind::kHostMemory, address, "%s",
              only_shared ? "not an address of shared memory"
                          : "an address that is not the kernel's: host memory, or another thread's variable");
}

}  // namespace banter::cuda_emulator
