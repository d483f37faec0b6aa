#include "backend_cpu/memory.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#if defined(_WIN32)
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <sys/mman.h>
#endif

namespace banter::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlignment = 64;

size_t round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void* allocate_pages(size_t bytes) {
  if (bytes > std::numeric_limits<size_t>::max() / 2) return nullptr;
  if (bytes < kHugePage) {
    const size_t rounded = round_up(std::max<size_t>(bytes, 1), kAlignment);
    void* memory = ::operator new (rounded, std::align_val_t{kAlignment}, std::nothrow);
    if (memory != nullptr) std::memset(memory, 0, rounded);
    return memory;
  }
#if defined(_WIN32)
  return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
#else
  // Map one huge page more than needed, then give back both ends, so that the block starts on a huge page.
  const size_t size = round_up(bytes, kHugePage);
  void* mapped = ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = (start + kHugePage - 1) & ~(uintptr_t{kHugePage} - 1);
  if (aligned > start) ::munmap(mapped, aligned - start);
  const uintptr_t end = start + size + kHugePage;
  if (end > aligned + size) ::munmap(reinterpret_cast<void*>(aligned + size), end - (aligned + size));
  void* memory = reinterpret_cast<void*>(aligned);
#if defined(MADV_HUGEPAGE)
  ::madvise(memory, size, MADV_HUGEPAGE);  // advice only: refused where the system has no huge pages
#endif
  return memory;
#endif
}

void free_pages(void* memory, size_t bytes) {
  if (memory == nullptr) return;
  if (bytes < kHugePage) {
    ::operator delete (memory, std::align_val_t{kAlignment});
    return;
  }
#if defined(_WIN32)
  VirtualFree(memory, 0, MEM_RELEASE);
#else
  ::munmap(memory, round_up(bytes, kHugePage));
#endif
}

std::shared_ptr<Arena> Arena::create(size_t bytes) {
  auto* base = static_cast<std::byte*>(allocate_pages(bytes));
  if (base == nullptr) return nullptr;
  return std::make_shared<Arena>(base, bytes);
}

Arena::~Arena() {
  free_pages(base_, capacity_);
}

std::byte* Arena::take(size_t bytes) {
  const size_t rounded = round_up(bytes, kAlignment);
  if (rounded > left()) return nullptr;
  std::byte* memory = base_ + used_;
  used_ += rounded;
  return memory;
}

void* Scratch::reserve(size_t bytes) {
  if (bytes <= bytes_) return memory_;
  void* larger = allocate_pages(bytes);
  if (larger == nullptr) return nullptr;
  free_pages(memory_, bytes_);
  memory_ = larger;
  bytes_ = bytes;
  return memory_;
}

}  // namespace banter::cpu
