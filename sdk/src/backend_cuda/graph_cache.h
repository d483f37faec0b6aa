// Decode steps as CUDA graphs: one for each program and grid, so that a step costs one launch. They are built node by node, not
// captured from a stream: while one is under capture, nobody in the process may wait for the device or the context that it is
// in (CUDA C++ Programming Guide, "Prohibited and Unhandled Operations"), and the game may well do so.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "backend_cuda/kernel_queue.h"
#include "backend_cuda/memory.h"
#include "backend_cuda/program.h"
#include "backend_cuda/step_upload.h"

namespace banter::cuda {

/** Rows that a decode step's grid is rounded up to; 0: more than graphs are made for. */
int32_t graph_rows(int32_t rows);

class GraphCache {
 public:
  GraphCache() = default;
  ~GraphCache() { clear(); }
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  /** Puts the program's kernels into a queue. */
  using Issue = std::function<Result<void>(KernelQueue queue)>;
  /** Runs the program on the stream: the first time through `issue`; from the second time on as a graph, which is made through
   *  `issue`, too. Where making or launching one fails, `issue` serves for good. Errors: those of `issue`. */
  Result<void> run(const Program& program, const StepShape& grid, const Stream& stream, const Issue& issue);
  /** Drops all graphs: addresses in them are no longer true. */
  void clear();
  /** Forgets them: their context is gone. */
  void abandon() { entries_.clear(); }

 private:
  struct Entry {
    Program program;
    StepShape grid;
    cudaGraphExec_t graph = nullptr;
    int32_t seen = 0;
    uint64_t last_used = 0;
  };
  Entry& entry_of(const Program& program, const StepShape& grid);
  static bool make(Entry& entry, const Issue& issue);

  std::vector<Entry> entries_;
  uint64_t clock_ = 0;
};

}  // namespace banter::cuda
