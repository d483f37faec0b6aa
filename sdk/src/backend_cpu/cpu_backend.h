// The CPU backend: SIMD kernels over repacked weights, chosen at run time for this processor.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/thread_pool.h"
#include "ops/backend.h"

namespace banter::cpu {

/** Instruction sets with kernels, weakest first. */
enum class Isa : uint8_t { kScalar, kAvx2, kAvx512, kAvx512Vnni };

std::string_view isa_name(Isa isa);
/** Sets that this processor (and operating system) can run; kScalar always. */
std::span<const Isa> available_isas();
/** The best available, capped by the environment variable BANTER_CPU_ISA (scalar, avx2, avx512, avx512-vnni). */
Isa best_isa();

/** The pool must outlive the backend. Errors: UNSUPPORTED when this processor lacks `isa`. */
Result<std::unique_ptr<ops::Backend>> create_backend(ThreadPool& pool, Isa isa);

}  // namespace banter::cpu
