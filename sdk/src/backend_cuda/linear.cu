// Matrix products as the host calls them: which kernel computes what.
//
//   rows      quantised              F16, BF16                 F32, BF16 below compute capability 8.0
//   1 to 8    linear_gemv.h (dp4a)   linear_floats.cu (mma)    linear_floats.cu (fma)
//   above     linear_gemm.h (mma)    linear_gemm.h (mma)       the same
//
// A row's bits do not depend on the choice (linear_common.h).
#include "backend_cuda/linear_common.h"

namespace banter::cuda {
namespace {

/** cc 8.0 brought bfloat16 to the matrix instructions. */
bool multiplies_bfloats(const DeviceLimits& device) {
  return device.compute_capability >= 80;
}

bool is_fma_form(ops::FormId form, const DeviceLimits& device) {
  return form == ops::FormId::kF32 || (form == ops::FormId::kBF16 && !multiplies_bfloats(device));
}

cudaError_t launch_products(ops::FormId form, const ProductArgs& args, const DeviceLimits& device, KernelQueue queue) {
  if (form == ops::FormId::kF32) return launch_floats(args, queue);
  if (is_fma_form(form, device)) return launch_bfloat_fma(args, queue);
  const bool few = args.rows <= kFewRows;
  if (!ops::is_quantised(form)) {
    return few ? launch_few_halves(form, args, queue) : launch_gemm_halves(form, args, device, queue);
  }
  if (few) {
    return is_super_form(form) ? launch_gemv_supers(form, args, queue) : launch_gemv_blocks(form, args, queue);
  }
  return is_super_form(form) ? launch_gemm_supers(form, args, device, queue)
                             : launch_gemm_blocks(form, args, device, queue);
}

ProductTarget target_for(const DeviceWeight& weight, const float* bias, float* y) {
  return {.panels = weight.panels,
          .panel_bytes = weight.panel_bytes,
          .bias = bias,
          .y = y,
          .weight_rows = static_cast<int32_t>(weight.rows),
          .first_tile = 0};
}

/** What all products over the same rows and columns share. */
ProductArgs shared_args(const StepView& step, const DeviceWeight& weight, const float* x,
                        const QuantisedRows& quantised) {
  ProductArgs args = {};
  args.row_count = &step.counts->rows;
  args.cols = static_cast<int32_t>(weight.cols);
  args.blocks = (args.cols + ops::kBlock - 1) / ops::kBlock;
  args.segment_blocks = segment_blocks(weight.cols);
  args.segments = (args.blocks + args.segment_blocks - 1) / args.segment_blocks;
  args.x = x;
  args.quantised = quantised;
  return args;
}

}  // namespace

cudaError_t linear(const StepView& step, const LinearArgs& args, const DeviceLimits& device, KernelQueue queue) {
  bool done[3] = {};
  for (int32_t first = 0; first < args.targets; ++first) {
    if (done[first]) continue;
    const DeviceWeight& weight = *args.weights[first];
    ProductArgs product = shared_args(step, weight, args.x, args.quantised);
    product.rows = args.rows;
    if (args.logit_rows) {
      product.row_count = &step.counts->logit_rows;
      product.x_rows = step.logit_rows;
    }
    product.softcap = args.softcap;
    if (weight.form == ops::FormId::kF16) product.row_scale = args.quantised.half_scale;
    for (int32_t i = first; i < args.targets; ++i) {  // weights of one form share a launch
      if (args.weights[i]->form != weight.form) continue;
      product.target[product.targets++] = target_for(*args.weights[i], args.biases[i], args.ys[i]);
      done[i] = true;
    }
    const cudaError_t error = launch_products(weight.form, product, device, queue);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t gated(const StepView& step, const GatedArgs& args, const DeviceLimits& device, KernelQueue queue) {
  const DeviceWeight& up = *args.up;
  const auto ff = static_cast<int32_t>(up.rows);
  const bool fused = args.gate->form == up.form && (args.rows <= kFewRows || is_fma_form(up.form, device));
  if (!fused) {
    LinearArgs products = {};
    products.x = args.x;
    products.quantised = args.quantised;
    products.rows = args.rows;
    products.targets = 2;
    products.weights[0] = args.gate;
    products.weights[1] = args.up;
    products.ys[0] = args.scratch;
    products.ys[1] = args.out;
    const cudaError_t error = linear(step, products, device, queue);
    if (error != cudaSuccess) return error;
    return gate_rows(step, args.scratch, args.out, args.rows, ff, args.activation, args.quantised_out, queue);
  }
  ProductArgs product = shared_args(step, up, args.x, args.quantised);
  product.rows = args.rows;
  product.gated = true;
  product.activation = args.activation;
  product.gated_forms = args.quantised_out;
  if (up.form == ops::FormId::kF16) product.row_scale = args.quantised.half_scale;
  product.targets = 2;
  product.target[0] = target_for(*args.gate, nullptr, nullptr);
  product.target[1] = target_for(up, nullptr, args.out);
  const cudaError_t error = launch_products(up.form, product, device, queue);
  if (error != cudaSuccess || args.quantised_out.half == nullptr) return error;
  // Float16 is scaled by the largest of the whole row, which no block of the product has seen.
  QuantisedRows half = args.quantised_out;
  half.q = nullptr;
  half.bfloat = nullptr;
  return quantise(step, args.out, args.rows, ff, nullptr, half, queue);
}

}  // namespace banter::cuda
