// Capture of streams, and graphs. A graph is the list of its operations in the order in which they were captured or added, which
// is one of the orders that their dependencies allow.
#include <algorithm>

#include "cuda_emulator/card.h"

namespace banter::cuda_emulator {
namespace {

void leave_capture(CUstream_st& stream) {
  stream.capture_origin = nullptr;
  stream.capture_status = cudaStreamCaptureStatusNone;
  stream.captured.reset();
  stream.joined.clear();
  stream.unjoined.clear();
}

thread_local constinit cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

}  // namespace

cudaError_t enqueue(CUstream_st& stream, Operation operation) {
  Card& c = card();
  if (&stream == &c.legacy) {
    // The default stream would order itself with a captured stream.
    for (CUstream_st* other : c.streams) {
      if (other->blocking && other->capture_status == cudaStreamCaptureStatusActive) {
        other->capture_origin->capture_status = cudaStreamCaptureStatusInvalidated;
        return cudaErrorStreamCaptureImplicit;
      }
    }
  }
  if (stream.capture_status != cudaStreamCaptureStatusNone) {
    CUstream_st& origin = *stream.capture_origin;
    if (origin.capture_status != cudaStreamCaptureStatusActive) return cudaErrorStreamCaptureInvalidated;
    if (&stream != &origin) origin.unjoined.insert(&stream);
    origin.captured->push_back(std::move(operation));
    return cudaSuccess;
  }
  operation.number = ++c.operations;
  stream.queue.push_back(std::move(operation));
  return cudaSuccess;
}

cudaError_t join_capture(CUstream_st& stream, CUevent_st& event) {
  CUstream_st* const origin = event.capture_origin;
  if (card().streams.count(origin) == 0 || origin->capture_status == cudaStreamCaptureStatusNone) {
    return cudaErrorCapturedEvent;  // its capture is over
  }
  if (stream.capture_status != cudaStreamCaptureStatusNone) {
    return stream.capture_origin == origin ? cudaSuccess : cudaErrorStreamCaptureMerge;
  }
  if (&stream == &card().legacy) return cudaErrorStreamCaptureImplicit;
  stream.capture_origin = origin;
  stream.capture_status = cudaStreamCaptureStatusActive;
  origin->joined.insert(&stream);
  origin->unjoined.insert(&stream);
  return cudaSuccess;
}

cudaError_t forbidden_by_capture() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (CUstream_st* stream : card().streams) {
    if (stream->capture_origin != stream || stream->capture_status != cudaStreamCaptureStatusActive) continue;
    const bool own = stream->capture_thread == this_thread();
    if (stream->capture_mode == cudaStreamCaptureModeGlobal
            ? (own || thread_mode == cudaStreamCaptureModeGlobal)
            : (stream->capture_mode == cudaStreamCaptureModeThreadLocal && own)) {
      stream->capture_status = cudaStreamCaptureStatusInvalidated;
      error = cudaErrorStreamCaptureUnsupported;
    }
  }
  return error;
}

}  // namespace banter::cuda_emulator

using namespace banter::cuda_emulator;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  Call call;
  if (call.failed()) return call.error();
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (stream == &card().legacy) return call.done(cudaErrorStreamCaptureUnsupported);
  if (stream->capture_status != cudaStreamCaptureStatusNone) return call.done(cudaErrorIllegalState);
  stream->capture_origin = stream;
  stream->capture_status = cudaStreamCaptureStatusActive;
  stream->capture_mode = mode;
  stream->capture_thread = this_thread();
  stream->captured = std::make_shared<std::vector<Operation>>();
  return call.done(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  Call call(Call::Kind::kRelease);
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr || graph == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  *graph = nullptr;
  if (stream->capture_status == cudaStreamCaptureStatusNone) return call.done(cudaErrorIllegalState);
  if (stream->capture_origin != stream) return call.done(cudaErrorStreamCaptureUnmatched);
  cudaError_t result = cudaSuccess;
  if (stream->capture_status == cudaStreamCaptureStatusInvalidated) result = cudaErrorStreamCaptureInvalidated;
  if (result == cudaSuccess && !stream->unjoined.empty()) result = cudaErrorStreamCaptureUnjoined;
  if (result == cudaSuccess && stream->capture_mode != cudaStreamCaptureModeRelaxed &&
      stream->capture_thread != this_thread()) {
    result = cudaErrorStreamCaptureWrongThread;
  }
  if (result == cudaSuccess && !call.failed()) {
    *graph = new CUgraph_st{stream->captured, {}};
    card().graphs.insert(*graph);
  }
  for (CUstream_st* other : stream->joined) {
    if (card().streams.count(other) != 0) leave_capture(*other);
  }
  leave_capture(*stream);
  return call.done(result);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  Call call;
  if (call.failed()) return call.error();
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr || status == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  *status = stream->capture_origin != nullptr ? stream->capture_origin->capture_status : stream->capture_status;
  return call.done(cudaSuccess);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  Call call;
  if (call.failed()) return call.error();
  std::swap(*mode, thread_mode);
  return call.done(cudaSuccess);
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  Call call;
  if (call.failed()) return call.error();
  if (graph == nullptr || flags != 0) return call.done(cudaErrorInvalidValue);
  *graph = new CUgraph_st{std::make_shared<std::vector<Operation>>(), {}};
  card().graphs.insert(*graph);
  return call.done(cudaSuccess);
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                   size_t count, const cudaKernelNodeParams* params) {
  Call call;
  if (call.failed()) return call.error();
  Card& c = card();
  if (c.graphs.count(graph) == 0) {
    report_host(FaultKind::kBadHandle, graph, "no such graph");
    return call.done(cudaErrorInvalidResourceHandle);
  }
  if (node == nullptr || params == nullptr || params->kernelParams == nullptr || params->extra != nullptr) {
    return call.done(cudaErrorInvalidValue);
  }
  for (size_t i = 0; i < count; ++i) {
    const bool known = std::any_of(graph->nodes.begin(), graph->nodes.end(),
                                   [&](const auto& each) { return each.get() == dependencies[i]; });
    if (known) continue;
    report_host(FaultKind::kBadHandle, dependencies[i], "no such node in this graph");
    return call.done(cudaErrorInvalidValue);
  }
  // What nothing orders may run side by side; the emulated card runs all of it in the order of the list.
  if (count != (graph->nodes.empty() ? 0 : 1) || (count == 1 && dependencies[0] != graph->nodes.back().get())) {
    return call.done(cudaErrorNotSupported);
  }
  const auto launched = c.launched.find(params->func);
  if (launched == c.launched.end()) return call.done(cudaErrorInvalidDeviceFunction);
  cudaLaunchConfig_t config = {};
  config.gridDim = params->gridDim, config.blockDim = params->blockDim;
  config.dynamicSmemBytes = params->sharedMemBytes;
  if (!within_limits(config, params->func, launched->second.argument_bytes)) {
    return call.done(cudaErrorInvalidConfiguration);
  }
  Operation operation = {};
  operation.kind = Operation::Kind::kLaunch;
  operation.launch = launched->second;
  operation.launch.call.arguments = operation.launch.call.copy(params->kernelParams);
  operation.launch.grid = params->gridDim, operation.launch.block = params->blockDim;
  operation.launch.shared_bytes = params->sharedMemBytes;
  graph->operations->push_back(std::move(operation));
  graph->nodes.push_back(std::make_unique<CUgraphNode_st>());
  *node = graph->nodes.back().get();
  return call.done(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  Call call;
  if (call.failed()) return call.error();
  Card& c = card();
  if (exec == nullptr || c.graphs.count(graph) == 0) {
    report_host(FaultKind::kBadHandle, graph, "no such graph");
    return call.done(cudaErrorInvalidResourceHandle);
  }
  *exec = new CUgraphExec_st{std::make_shared<const std::vector<Operation>>(*graph->operations)};
  c.graph_execs.insert(*exec);
  own(*exec);
  return call.done(cudaSuccess);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  Call call;
  if (call.failed()) return call.error();
  if (card().graphs.count(graph) == 0 || count == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (nodes != nullptr) return call.done(cudaErrorNotSupported);
  *count = graph->operations->size();
  return call.done(cudaSuccess);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle) {
  Call call;
  if (call.failed()) return call.error();
  const bool known = card().graph_execs.count(exec) != 0 && find_stream(handle) != nullptr;
  return call.done(known ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  Call call;
  if (call.failed()) return call.error();
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (card().graph_execs.count(exec) == 0) {
    report_host(FaultKind::kBadHandle, exec, "no such executable graph");
    return call.done(cudaErrorInvalidResourceHandle);
  }
  if (!is_of_current(exec, "executable graph")) return call.done(cudaErrorInvalidResourceHandle);
  Operation operation = {};
  operation.kind = Operation::Kind::kGraph;
  operation.graph = exec->operations;
  return call.done(enqueue(*stream, std::move(operation)));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  Call call(Call::Kind::kRelease);
  if (card().graph_execs.erase(exec) == 0) {
    report_host(FaultKind::kBadHandle, exec, "no such executable graph");
    return call.done(cudaErrorInvalidResourceHandle);
  }
  card().owners.erase(exec);
  delete exec;  // launches that are queued keep its operations
  return call.done(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  Call call(Call::Kind::kRelease);
  if (card().graphs.erase(graph) == 0) {
    report_host(FaultKind::kBadHandle, graph, "no such graph");
    return call.done(cudaErrorInvalidResourceHandle);
  }
  delete graph;
  return call.done(cudaSuccess);
}
