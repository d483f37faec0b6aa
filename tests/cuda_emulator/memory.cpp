#include "cuda_emulator/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace banter::cuda_emulator {
namespace {

constexpr size_t kPage = 4096;

void* reserve_range(size_t bytes, int protection) {
  void* const memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "cuda_emulator: cannot reserve %zu bytes of addresses\n", bytes);
    std::abort();
  }
  return memory;
}
size_t round_up(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

void DeviceMemory::reserve() {
  if (valid_ != nullptr) return;
  base_ = reinterpret_cast<uintptr_t>(reserve_range(kReserved, PROT_READ | PROT_WRITE));
  device_base = base_;
  valid_ = static_cast<uint16_t*>(reserve_range(kReserved / kGranule * sizeof(uint16_t), PROT_READ | PROT_WRITE));
}

std::byte* DeviceMemory::allocate(size_t bytes) {
  reserve();
  // Big ones at page starts, so that their pages can go back to the system; always room between neighbours.
  const size_t unit = bytes >= 16 * kPage ? kPage : kGranule;
  const size_t need = bytes + kGranule;
  for (int round = 0; round < 2; ++round) {
    size_t offset = round_up(next_, unit);
    for (auto it = live_.lower_bound(offset);; ++it) {
      if (it != live_.begin()) {
        const auto before = std::prev(it);
        offset = std::max(offset, round_up(before->first + before->second + kGranule, unit));
      }
      const size_t limit = it == live_.end() ? kReserved : it->first;
      if (offset + need <= limit) {
        mark(offset, bytes, true);
        live_[offset] = bytes;
        live_bytes_ += bytes;
        next_ = offset + need;
        auto* const memory = reinterpret_cast<std::byte*>(base_ + offset);
        std::memset(memory, 0xFF, bytes);
        return memory;
      }
      if (it == live_.end()) break;
    }
    next_ = kGranule;  // once round
  }
  return nullptr;
}

size_t DeviceMemory::release(void* pointer) {
  const auto it = live_.find(reinterpret_cast<uintptr_t>(pointer) - base_);
  if (!contains(reinterpret_cast<uintptr_t>(pointer)) || it == live_.end()) return 0;
  const auto [offset, bytes] = *it;
  live_.erase(it);
  live_bytes_ -= bytes;
  std::memset(pointer, 0xFF, bytes < 16 * kPage ? bytes : 0);
  if (bytes >= 16 * kPage) madvise(pointer, bytes / kPage * kPage, MADV_DONTNEED);
  mark(offset, bytes, false);
  return bytes;
}

void DeviceMemory::mark(size_t offset, size_t bytes, bool live) {
  const size_t first = offset / kGranule, whole = bytes / kGranule;
  for (size_t i = 0; i < whole; ++i) valid_[first + i] = live ? kGranule : kFreedMark;
  if (bytes % kGranule != 0) valid_[first + whole] = live ? static_cast<uint16_t>(bytes % kGranule) : kFreedMark;
#if defined(__SANITIZE_ADDRESS__)
  auto* const memory = reinterpret_cast<std::byte*>(base_ + offset);
  if (live) {
    ASAN_POISON_MEMORY_REGION(memory - kGranule, round_up(bytes, kGranule) + 2 * kGranule);
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
  } else {
    ASAN_POISON_MEMORY_REGION(memory, bytes);
  }
#endif
}

const char* DeviceMemory::describe(uintptr_t address, char (&text)[160]) const {
  auto it = live_.upper_bound(address - base_);
  if (it == live_.begin()) return "device memory that was never allocated";
  --it;
  const size_t distance = address - base_ - it->first;
  std::snprintf(text, sizeof text, "byte %zu of an allocation of %zu bytes", distance, it->second);
  return text;
}

}  // namespace banter::cuda_emulator
