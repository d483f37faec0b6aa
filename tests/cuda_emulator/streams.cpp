// Streams and events. What is queued runs when something waits for it, and not before: so that results which are read,
// or buffers which are used again, without waiting are seen to be wrong.
#include <pthread.h>

#include <chrono>
#include <cstring>

#include "cuda_emulator/card.h"

namespace banter::cuda_emulator {

uint64_t this_thread() {
  return reinterpret_cast<uint64_t>(pthread_self());
}

CUstream_st* find_stream(cudaStream_t handle) {
  Card& c = card();
  if (handle == nullptr || handle == cudaStreamLegacy) return &c.legacy;
  if (c.streams.count(handle) != 0) return is_of_current(handle, "stream") ? handle : nullptr;
  report_host(FaultKind::kBadHandle, handle, "no such stream");
  return nullptr;
}

namespace {

std::shared_ptr<CUevent_st> find_event(cudaEvent_t handle) {
  Card& c = card();
  const auto it = c.events.find(handle);
  if (it != c.events.end()) return is_of_current(handle, "event") ? it->second : nullptr;
  report_host(FaultKind::kBadHandle, handle, "no such event");
  return nullptr;
}

double now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void copy_rows(const Operation& o) {
  for (size_t row = 0; row < o.height && o.bytes != 0; ++row) {
    std::memmove(static_cast<std::byte*>(o.to) + row * o.to_pitch,
                 static_cast<const std::byte*>(o.from) + row * o.from_pitch, o.bytes);
  }
}

/** Memory that was live when the operation was queued must be so when it runs. */
bool still_live(const void* pointer, size_t bytes, bool pinned, const char* what) {
  if (pinned && !is_pinned(pointer, bytes)) {
    report_host(FaultKind::kUseAfterFree, pointer, std::string(what) + ": the pinned memory was freed");
    return false;
  }
  if (!card().memory.contains(reinterpret_cast<uintptr_t>(pointer))) return true;
  return check_device_range(pointer, bytes, what);
}

/** Runs the operations of the event's stream up to the record. */
void complete(CUevent_st& event, uint64_t record) {
  if (event.completed >= record) return;
  Card& c = card();
  CUstream_st* const stream = event.stream == nullptr ? &c.legacy : event.stream;
  if (stream != &c.legacy && c.streams.count(stream) == 0) return;  // destroyed: what it held has run
  for (const Operation& o : stream->queue) {
    if (o.kind == Operation::Kind::kRecord && o.event.get() == &event && o.record >= record) {
      drain(*stream, o.number);
      return;
    }
  }
}

/** The default stream and those that are blocking wait for each other. */
void order_with_legacy(CUstream_st& stream, uint64_t number) {
  Card& c = card();
  if (&stream == &c.legacy) {
    for (CUstream_st* other : c.streams) {
      if (other->blocking) drain(*other, number);
    }
  } else if (stream.blocking) {
    drain(c.legacy, number);
  }
}

}  // namespace

void execute(const Operation& o) {
  Card& c = card();
  if (c.device_error != cudaSuccess && o.kind != Operation::Kind::kRecord) return;
  switch (o.kind) {
    case Operation::Kind::kLaunch:
      if (!c.block) c.block = std::make_unique<Block>();
      if (!c.block->run(o.launch)) c.device_error = cudaErrorLaunchFailure;
      break;
    case Operation::Kind::kCopy: {
      const size_t from_bytes = (o.height - 1) * o.from_pitch + o.bytes,
                   to_bytes = (o.height - 1) * o.to_pitch + o.bytes;
      if (still_live(o.from, from_bytes, o.from_pinned, "source of a copy as it runs") &&
          still_live(o.to, to_bytes, o.to_pinned, "destination of a copy as it runs")) {
        copy_rows(o);
      } else {
        c.device_error = cudaErrorIllegalAddress;
      }
      break;
    }
    case Operation::Kind::kSet:
      if (still_live(o.to, o.bytes, false, "cudaMemset as it runs")) {
        std::memset(o.to, o.value, o.bytes);
      } else {
        c.device_error = cudaErrorIllegalAddress;
      }
      break;
    case Operation::Kind::kRecord:
      o.event->completed = std::max(o.event->completed, o.record);
      o.event->time = now();
      break;
    case Operation::Kind::kWait:
      complete(*o.event, o.record);
      break;
    case Operation::Kind::kHost:
      o.host(o.host_data);
      break;
    case Operation::Kind::kGraph:
      for (const Operation& inner : *o.graph) execute(inner);
      break;
  }
}

void drain(CUstream_st& stream, uint64_t number) {
  while (!stream.queue.empty() && stream.queue.front().number <= number) {
    Operation operation = std::move(stream.queue.front());
    stream.queue.pop_front();
    order_with_legacy(stream, operation.number);
    execute(operation);
  }
}

void drain_all() {
  Card& c = card();
  drain(c.legacy);
  for (CUstream_st* stream : c.streams) drain(*stream);
}

void drain_legacy() {
  Card& c = card();
  drain(c.legacy);
  for (CUstream_st* stream : c.streams) {
    if (stream->blocking) drain(*stream);
  }
}

namespace {

/** Runs one operation that the event waits for, so that a loop which asks comes to an end. */
void progress(CUstream_st& stream) {
  if (!stream.queue.empty()) drain(stream, stream.queue.front().number);
}

cudaError_t create_stream(cudaStream_t* stream, unsigned flags, int priority) {
  Call call(Call::Kind::kPlain);
  if (call.failed()) return call.error();
  if (stream == nullptr || flags > cudaStreamNonBlocking) return call.done(cudaErrorInvalidValue);
  *stream = new CUstream_st;
  (*stream)->blocking = flags == cudaStreamDefault;
  (*stream)->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
  card().streams.insert(*stream);
  own(*stream);
  return call.done(cudaSuccess);
}

/** A stream under capture cannot be waited for; asking ends its capture. */
cudaError_t refuse_if_capturing(CUstream_st& stream) {
  if (stream.capture_status == cudaStreamCaptureStatusNone) return cudaSuccess;
  if (stream.capture_origin != nullptr) stream.capture_origin->capture_status = cudaStreamCaptureStatusInvalidated;
  stream.capture_status = cudaStreamCaptureStatusInvalidated;
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace
}  // namespace banter::cuda_emulator

using namespace banter::cuda_emulator;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create_stream(stream, cudaStreamDefault, 0);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create_stream(stream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create_stream(stream, flags, priority);
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  Call call;
  if (call.failed()) return call.error();
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr || priority == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  *priority = stream->priority;
  return call.done(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Call call(Call::Kind::kRelease);
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr || stream == &card().legacy) return call.done(cudaErrorInvalidResourceHandle);
  drain(*stream);  // its work goes on; nobody can wait for it any more, so it may as well be now
  card().streams.erase(stream);
  card().owners.erase(stream);
  delete stream;
  return call.done(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  Call call;
  if (call.failed()) return call.error();
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = refuse_if_capturing(*stream); error != cudaSuccess) return call.done(error);
  if (stream == &card().legacy) {
    drain_legacy();
  } else {
    drain(*stream);
  }
  return call.done(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  Call call;
  if (call.failed()) return call.error();
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = refuse_if_capturing(*stream); error != cudaSuccess) return call.done(error);
  if (stream->queue.empty()) return call.done(cudaSuccess);
  progress(*stream);
  return call.done(cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize() {
  Call call;
  if (call.failed()) return call.error();
  for (CUstream_st* stream : card().streams) {  // whoever captures, in whichever mode
    if (refuse_if_capturing(*stream) != cudaSuccess) return call.done(cudaErrorStreamCaptureUnsupported);
  }
  drain_all();
  return call.done(cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, void (*function)(void*), void* data) {
  Call call;
  if (call.failed()) return call.error();
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr || function == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  Operation operation = {};
  operation.kind = Operation::Kind::kHost;
  operation.host = function, operation.host_data = data;
  return call.done(enqueue(*stream, std::move(operation)));
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  Call call;
  if (call.failed()) return call.error();
  if (event == nullptr) return call.done(cudaErrorInvalidValue);
  auto made = std::make_shared<CUevent_st>();
  made->timing = (flags & cudaEventDisableTiming) == 0;
  *event = made.get();
  own(*event);
  card().events.emplace(*event, std::move(made));
  return call.done(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  Call call(Call::Kind::kRelease);
  if (find_event(handle) == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  card().owners.erase(handle);
  card().events.erase(handle);  // queued operations keep it
  return call.done(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  Call call;
  if (call.failed()) return call.error();
  CUstream_st* const stream = find_stream(stream_handle);
  auto event = find_event(handle);
  if (stream == nullptr || event == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  Operation operation = {};
  operation.kind = Operation::Kind::kRecord;
  if (stream->capture_status != cudaStreamCaptureStatusNone) {
    event->of_capture = true;
    event->capture_origin = stream->capture_origin;
    event->stream = stream;
    if (stream != stream->capture_origin) stream->capture_origin->unjoined.erase(stream);
    return call.done(stream->capture_status == cudaStreamCaptureStatusActive ? cudaSuccess
                                                                             : cudaErrorStreamCaptureInvalidated);
  }
  event->of_capture = false;
  event->stream = stream == &card().legacy ? nullptr : stream;
  operation.record = event->recorded = ++card().records;
  operation.event = std::move(event);
  return call.done(enqueue(*stream, std::move(operation)));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned) {
  Call call;
  if (call.failed()) return call.error();
  CUstream_st* const stream = find_stream(stream_handle);
  auto event = find_event(handle);
  if (stream == nullptr || event == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (event->of_capture) return call.done(join_capture(*stream, *event));
  if (stream->capture_status != cudaStreamCaptureStatusNone) {
    refuse_if_capturing(*stream);
    return call.done(cudaErrorStreamCaptureIsolation);  // the capture would depend on work outside of it
  }
  if (event->recorded == 0) return call.done(cudaSuccess);
  Operation operation = {};
  operation.kind = Operation::Kind::kWait;
  operation.record = event->recorded;
  operation.event = std::move(event);
  return call.done(enqueue(*stream, std::move(operation)));
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  Call call;
  if (call.failed()) return call.error();
  const auto event = find_event(handle);
  if (event == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (event->of_capture) return call.done(cudaErrorCapturedEvent);
  complete(*event, event->recorded);
  return call.done(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  Call call;
  if (call.failed()) return call.error();
  const auto event = find_event(handle);
  if (event == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (event->of_capture) return call.done(cudaErrorCapturedEvent);
  if (event->completed >= event->recorded) return call.done(cudaSuccess);
  progress(event->stream != nullptr ? *event->stream : card().legacy);
  return call.done(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start_handle, cudaEvent_t end_handle) {
  Call call;
  if (call.failed()) return call.error();
  const auto start = find_event(start_handle), end = find_event(end_handle);
  if (start == nullptr || end == nullptr || !start->timing || !end->timing || start->recorded == 0 ||
      end->recorded == 0) {
    return call.done(cudaErrorInvalidResourceHandle);
  }
  if (start->completed < start->recorded || end->completed < end->recorded) return call.done(cudaErrorNotReady);
  *milliseconds = static_cast<float>(end->time - start->time);
  return call.done(cudaSuccess);
}
