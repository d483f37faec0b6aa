// What this processor, and the operating system's state saving, can run.
#pragma once

namespace banter {

struct CpuFeatures {
  bool avx2 = false;         // AVX2, FMA and F16C, with ymm state saved by the system
  bool avx512 = false;       // AVX-512 F, BW, VL and DQ, with zmm state saved by the system
  bool avx512_vnni = false;  // and VNNI
};

/** Asks the processor; all false where it is not x86-64. Thread-safe; cheap, but not for inner loops. */
CpuFeatures cpu_features();

}  // namespace banter
