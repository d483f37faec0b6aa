// The reference backend: naive float32 loops that every other backend is tested against. Correct first, slow.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "ops/backend.h"

namespace banter::ops {

/** Weights stay in their file's blocks and are dequantised row by row; products are plain float32 dot products.
 *  The pool must outlive the backend. */
Result<std::unique_ptr<Backend>> create_reference_backend(ThreadPool& pool);

}  // namespace banter::ops
