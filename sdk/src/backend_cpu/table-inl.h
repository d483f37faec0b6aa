// All bodies of an instruction set and its table, kTable. Included inside a namespace and a target region, after a
// simd_*-inl.h; BANTER_ISA names the set.

#include "backend_cpu/linear-inl.h"
// clang-format off: the bodies build on each other
#include "backend_cpu/elementwise-inl.h"
#include "backend_cpu/roofline-inl.h"
// clang-format on

inline constexpr Kernels kTable = {
    BANTER_ISA,
    {panel<FormId::kF32>, panel<FormId::kF16>, panel<FormId::kBF16>, panel<FormId::kQ8_0>, panel<FormId::kQ4_0>,
     panel<FormId::kQ4_1>, panel<FormId::kQ5_0>, panel<FormId::kQ5_1>, panel<FormId::kQ2_K>, panel<FormId::kQ3_K>,
     panel<FormId::kQ4_K>, panel<FormId::kQ5_K>, panel<FormId::kQ6_K>, panel<FormId::kIQ4_NL>, panel<FormId::kIQ4_XS>,
     panel<FormId::kMXFP4>},
    quantize,
    gate,
    softcap,
    int8_rounds,
    fp32_rounds,
    read_bytes,
};
