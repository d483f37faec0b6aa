#include "base/cpuid.h"

#include <cstdint>

#if defined(__x86_64__) || defined(_M_X64)
#if defined(_MSC_VER)
#include <immintrin.h>
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#endif

namespace banter {

#if defined(__x86_64__) || defined(_M_X64)
namespace {

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
#if defined(_MSC_VER)
  int v[4];
  __cpuidex(v, static_cast<int>(leaf), static_cast<int>(subleaf));
  r = {static_cast<uint32_t>(v[0]), static_cast<uint32_t>(v[1]), static_cast<uint32_t>(v[2]),
       static_cast<uint32_t>(v[3])};
#else
  __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
#endif
  return r;
}

uint64_t saved_state() {
#if defined(_MSC_VER)
  return _xgetbv(0);
#else
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
#endif
}

constexpr bool bit(uint32_t value, int index) {
  return (value >> index & 1u) != 0;
}

}  // namespace

CpuFeatures cpu_features() {
  CpuFeatures found;
  if (cpuid(0, 0).eax < 7) return found;
  const Registers base = cpuid(1, 0);
  const Registers extended = cpuid(7, 0);
  if (!bit(base.ecx, 27)) return found;  // OSXSAVE: without it xgetbv faults
  const uint64_t state = saved_state();
  constexpr uint64_t kYmm = 0x06;  // SSE and AVX registers
  constexpr uint64_t kZmm = 0xE6;  // and mask registers, upper halves, zmm16-31
  found.avx2 =
      (state & kYmm) == kYmm && bit(base.ecx, 28) && bit(base.ecx, 12) && bit(base.ecx, 29) && bit(extended.ebx, 5);
  found.avx512 = found.avx2 && (state & kZmm) == kZmm && bit(extended.ebx, 16) && bit(extended.ebx, 17) &&
                 bit(extended.ebx, 30) && bit(extended.ebx, 31);
  found.avx512_vnni = found.avx512 && bit(extended.ecx, 11);
  return found;
}

#else

CpuFeatures cpu_features() {
  return {};
}

#endif

}  // namespace banter
