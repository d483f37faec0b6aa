#include "backend_cuda/memory.h"

namespace banter::cuda {

Error out_of_memory(size_t bytes, const char* what) {
  return {BANTER_ERROR_OUT_OF_MEMORY, "The graphics card has no room for " +
                                          std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB of " + what +
                                          "; use a smaller model or KV pool, or lower the game's use of its memory."};
}

Result<void> check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return {};
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return Error{BANTER_ERROR_OUT_OF_MEMORY, std::string("The graphics card ran out of memory during ") + what + "."};
  }
  return Error{BANTER_ERROR_BACKEND, std::string("CUDA: ") + what + " failed: " + cudaGetErrorString(status) + " (" +
                                         cudaGetErrorName(status) + ")."};
}

Stream::~Stream() {
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

Result<void> Stream::create() {
  int least = 0, greatest = 0;
  if (Result<void> asked = check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "reading stream priorities");
      !asked) {
    return asked;
  }
  return check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, least), "creating a stream");
}

Event::~Event() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
}

Result<void> Event::create() {
  if (event_ != nullptr) return {};
  return check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync), "creating an event");
}

Result<void> Event::record(const Stream& stream) {
  return check(cudaEventRecord(event_, stream.get()), "recording an event");
}

Result<void> Event::wait() {
  return check(cudaEventSynchronize(event_), "waiting for the device");
}

}  // namespace banter::cuda
