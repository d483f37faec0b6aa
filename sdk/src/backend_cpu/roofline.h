// This machine's measured ceilings, for benchmarks that say how far a kernel is from them.
#pragma once

#include "backend_cpu/cpu_backend.h"
#include "base/thread_pool.h"

namespace banter::cpu {

struct Roofline {
  double int8_ops = 0;    // operations (2 a multiply-add) a second with the instruction set's 8-bit dot product
  double fp32_ops = 0;    // operations a second by fused multiply-add
  double read_bytes = 0;  // bytes a second read from memory in order, on huge pages; 0 where memory did not suffice
};

/** Measures with all threads of `pool` for about a second, best of several short runs. The pool must be idle. `isa` must
 *  be available. */
Roofline measure_roofline(ThreadPool& pool, Isa isa);

}  // namespace banter::cpu
