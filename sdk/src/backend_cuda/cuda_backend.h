// The CUDA backend, as ops/backend.h asks for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "banter/types.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "ops/backend.h"

namespace banter::cuda {

/** A card that could compute. */
struct DeviceChoice {
  int32_t device = -1;             // CUDA's number of it
  std::string name;                // "NVIDIA GeForce RTX 4070"
  int32_t compute_capability = 0;  // 10 · major + minor
  int32_t multiprocessors = 0;
  uint64_t memory_bytes = 0;  // of the whole card
  uint64_t score = 0;         // higher is faster; compare with other devices' only
};

/** The device asked for (−1: the best one). Errors, each saying what to do: UNSUPPORTED when there is no driver, it is
 *  older than the runtime we are built with, there is no card, or it is older than compute capability 7.5. */
Result<DeviceChoice> choose_device(int32_t wanted);
/** The same where a context is wanted (null: none): the card that it is on. Errors also: UNSUPPORTED when it cannot be entered,
 *  is of another card than `wanted`, or is of a kind that this system, driver or card cannot do. */
Result<DeviceChoice> choose_device(int32_t wanted, const banter_cuda_context* context);

/** @param pool  packs weights; must outlive the backend
 *  @param context  where to compute; null: in the card's primary context. The struct is borrowed for the call, what it names
 *                  outlives the backend and what that made; should it not, calls fail from then on
 *  Errors: those of choose_device(), OUT_OF_MEMORY, BACKEND. */
Result<std::unique_ptr<ops::Backend>> create_backend(ThreadPool& pool, int32_t device,
                                                     const banter_cuda_context* context = nullptr);

}  // namespace banter::cuda
