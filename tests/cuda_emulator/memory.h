// The card's memory: one reserved range of addresses, so that a look at an address tells what it is. An address is not
// given out again before all others were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace banter::cuda_emulator {

class DeviceMemory {
  static constexpr size_t kGranule = 256;  // allocations begin at multiples of it, as a card's do
  static constexpr size_t kReserved = size_t{64} << 30;
  static constexpr uint16_t kFreedMark = 0xFFFF;

 public:
  enum class State : uint8_t { kLive, kNever, kFreed };

  void reserve();
  /** Whether the address is of any card's memory, before or after reserve(). */
  static bool is_device(uintptr_t address) { return address - device_base < kReserved; }
  bool contains(uintptr_t address) const { return address - base_ < kReserved; }
  /** Null: the addresses are used up. Filled with 0xFF. */
  std::byte* allocate(size_t bytes);
  /** The size of the allocation that was released; 0: `pointer` is none. */
  size_t release(void* pointer);
  /** Whether all bytes of [address, address + bytes) are of one live allocation. contains(address) holds. */
  State state(uintptr_t address, size_t bytes) const {
    size_t granule = (address - base_) / kGranule, within = (address - base_) % kGranule;
    for (;;) {
      const uint16_t valid = valid_[granule];
      const size_t last = within + bytes;
      if (valid != kGranule && last > valid) return valid == kFreedMark ? State::kFreed : State::kNever;
      if (valid == kFreedMark) return State::kFreed;
      if (last <= kGranule) return State::kLive;
      bytes = last - kGranule;
      within = 0;
      if (++granule >= kReserved / kGranule) return State::kNever;
    }
  }
  size_t live_bytes() const { return live_bytes_; }
  size_t allocations() const { return live_.size(); }
  /** "12 bytes beyond an allocation of 4096 bytes", for messages. */
  const char* describe(uintptr_t address, char (&text)[160]) const;

 private:
  void mark(size_t offset, size_t bytes, bool live);

  static constinit inline uintptr_t device_base = UINTPTR_MAX - kReserved;  // there is one card
  uintptr_t base_ = UINTPTR_MAX - kReserved;
  uint16_t* valid_ = nullptr;  // [granule] bytes of it that an allocation holds
  size_t next_ = kGranule;     // offset where the search for room begins
  size_t live_bytes_ = 0;
  std::map<size_t, size_t> live_;  // offset → bytes
};

}  // namespace banter::cuda_emulator
