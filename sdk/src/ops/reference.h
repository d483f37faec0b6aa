// The reference backend: naive float32 loops that every other backend is tested against. Correct first, slow.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "ops/backend.h"

namespace banter::ops {

/** Weights stay in their file's blocks and are dequantised row by row. Values are stored in float32; every sum runs in
 *  float64 over the exact products of float32 factors, so the only errors of an op are the rounding of its stored results.
 *  KV pages default to float32; float16 works too. The pool must outlive the backend. */
Result<std::unique_ptr<Backend>> create_reference_backend(ThreadPool& pool);

}  // namespace banter::ops
