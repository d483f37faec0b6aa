// Kernels over rows of activations: norms, the forms that matrix products read, the gate of two products. Embeddings
// stand in embed.cu.
//   norm       one block a row; residual, delta, out [rows][dim] f32. Bound: memory, mostly second-level cache.
//              Bytes a row: 4 · dim · (2 reads + 1 to 2 writes), and dim (int8) to 2 · dim a form.
//   quantise   one block a row; bytes: 4 · cols read, 1.25 · cols (int8) or 2 · cols written.
//   gate_rows  one block a row; 8 · cols read, 4 · cols written, and the forms.
// Mapping: thread i takes columns i, i + threads, …: a warp always holds the 32 columns of a block of activations, so
//   their maximum and sums are shuffles. What a pass needs again is read again: it is in the first-level cache.
// Numerics: a thread's sum is its columns in order, then the warp's butterfly, then warps in order: functions of dim
//   only. Error of the mean square: (dim / threads + 5 + warps) · 2^-24 of it, each output some ulps more.
// Expected: launch-bound for a few rows (2 to 4 µs); above, 80 % of the cache's rate.
#include "backend_cuda/activation.h"
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"
#include "backend_cuda/row_forms.h"

namespace banter::cuda {
namespace {

struct NormArgs {
  const StepCounts* counts;
  ops::NormParams params;
  QuantisedRows forms;
};

struct QuantiseArgs {
  const StepCounts* counts;
  const float* x;
  const int32_t* row_indices;
  int32_t cols;
  QuantisedRows forms;
};

struct GateArgs {
  const StepCounts* counts;
  const float* gate;
  float* out;  // holds the up product before
  int32_t cols;
  ops::Activation activation;
  QuantisedRows forms;
};

bool any_form(const QuantisedRows& forms) {
  return forms.q != nullptr || forms.half != nullptr || forms.bfloat != nullptr;
}

__device__ __forceinline__ float inverse_rms(float sum_of_squares, int32_t dim, float epsilon) {
  return 1.0f / sqrtf(sum_of_squares / static_cast<float>(dim) + epsilon);
}

struct NormedValue {
  const float* residual;
  const float* norm;
  float scale;
  __device__ float operator()(int32_t col) const { return residual[col] * scale * norm[col]; }
};

__global__ void __launch_bounds__(512) norm_kernel(NormArgs args) {
  auto& shared = shared_memory<ReductionShared>();
  const ops::NormParams& p = args.params;
  const int64_t row = blockIdx.x;
  if (row >= args.counts->rows) return;
  float* residual = p.residual + row * p.dim;
  const auto begin = static_cast<int32_t>(threadIdx.x);
  const auto step = static_cast<int32_t>(blockDim.x);
  float delta_scale = 1.0f;
  const float* delta = p.delta == nullptr ? nullptr : p.delta + row * p.dim;
  if (delta != nullptr && p.delta_norm != nullptr) {
    float squares = 0;
    for (int32_t i = begin; i < p.dim; i += step) squares = fmaf(delta[i], delta[i], squares);
    delta_scale = inverse_rms(block_sum(squares, shared), p.dim, p.epsilon);
  }
  float squares = 0;
  for (int32_t i = begin; i < p.dim; i += step) {
    float x = residual[i];
    if (delta != nullptr) {
      x = p.delta_norm != nullptr ? fmaf(delta[i] * delta_scale, p.delta_norm[i], x) : x + delta[i];
      residual[i] = x;
    }
    squares = fmaf(x, x, squares);
  }
  if (p.norm == nullptr) return;
  const NormedValue value{residual, p.norm, inverse_rms(block_sum(squares, shared), p.dim, p.epsilon)};
  if (p.out != nullptr) {
    for (int32_t i = begin; i < p.dim; i += step) p.out[row * p.dim + i] = value(i);
  }
  write_forms(value, p.dim, row, args.forms, shared);
}

struct StoredValue {
  const float* x;
  __device__ float operator()(int32_t col) const { return x[col]; }
};

__global__ void __launch_bounds__(512) quantise_kernel(QuantiseArgs args) {
  auto& shared = shared_memory<ReductionShared>();
  const int64_t row = blockIdx.x;
  int64_t source = row;
  if (args.row_indices != nullptr) {
    if (row >= args.counts->logit_rows) return;
    source = args.row_indices[row];
  } else if (row >= args.counts->rows) {
    return;
  }
  write_forms(StoredValue{args.x + source * args.cols}, args.cols, row, args.forms, shared);
}

__global__ void __launch_bounds__(512) gate_kernel(GateArgs args) {
  auto& shared = shared_memory<ReductionShared>();
  const int64_t row = blockIdx.x;
  if (row >= args.counts->rows) return;
  const float* gate = args.gate + row * args.cols;
  float* out = args.out + row * args.cols;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < args.cols; i += static_cast<int32_t>(blockDim.x)) {
    out[i] = activate(args.activation, gate[i]) * out[i];
  }
  if (args.forms.stride != 0) write_forms(StoredValue{out}, args.cols, row, args.forms, shared);
}

LaunchShape one_block_a_row(int32_t rows, int64_t cols) {
  return {.grid = dim3(static_cast<uint32_t>(rows)),
          .block = dim3(row_threads(cols)),
          .shared_bytes = sizeof(ReductionShared)};
}

}  // namespace

cudaError_t find_kernels(int32_t& capability) {
  cudaFuncAttributes attributes = {};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, norm_kernel);
  capability = attributes.ptxVersion;
  return status;
}

cudaError_t norm(const StepView& step, const ops::NormParams& params, const QuantisedRows& quantised,
                 KernelQueue queue) {
  NormArgs args{step.counts, params, quantised};
  if (!any_form(quantised)) args.forms = {};
  if (params.out == nullptr && !any_form(quantised)) args.params.norm = nullptr;  // no second part
  return launch(norm_kernel, one_block_a_row(params.rows, params.dim), queue, args);
}

cudaError_t quantise(const StepView& step, const float* x, int32_t rows, int32_t cols, const int32_t* row_indices,
                     const QuantisedRows& out, KernelQueue queue) {
  if (!any_form(out)) return cudaSuccess;
  const QuantiseArgs args{step.counts, x, row_indices, cols, out};
  return launch(quantise_kernel, one_block_a_row(rows, cols), queue, args);
}

cudaError_t gate_rows(const StepView& step, const float* gate, float* out, int32_t rows, int32_t cols,
                      ops::Activation activation, const QuantisedRows& forms, KernelQueue queue) {
  GateArgs args{step.counts, gate, out, cols, activation, forms};
  if (!any_form(forms)) args.forms = {};
  return launch(gate_kernel, one_block_a_row(rows, cols), queue, args);
}

}  // namespace banter::cuda
