// Embeddings: out[r] = table[token(r)] · scale, from the panels that matrix products read.
//   out [rows][cols] f32. Bound: memory; bytes a row: 4 · cols written, the row's weights read in pieces of 1 to 16 bytes
//   of which sectors of 32 are fetched, so up to 8 · cols: nothing beside one layer.
// Mapping: a block for a row, a warp for a block of 32 columns at a time, a lane for a column.
// Numerics: bit-equal to formats::dequantize(), times `scale` in float32.
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"
#include "backend_cuda/weight_codes.h"

namespace banter::cuda {
namespace {

/** A packed form as numbers, so that one kernel serves all. */
struct FormNumbers {
  int32_t base_bits, extra_bits, add, zero;
  ops::ScaleKind scale;
  bool is_super, per_16, has_min, has_table;
  int32_t header_bytes, scale_bytes, block_bytes;
  uint64_t table_low, table_high;  // of codes 0 to 7, and 8 to 15
};

struct EmbedArgs {
  const StepCounts* counts;
  const int32_t* tokens;
  const uint8_t* panels;
  size_t panel_bytes;
  float* out;
  float scale;
  int32_t cols;
  ops::FormId id;
  FormNumbers form;
};

FormNumbers numbers_of(const ops::PackedForm& form) {
  static constexpr int32_t kZeros[] = {0, 8, 16, 32, 128};
  FormNumbers n = {.base_bits = form.base_bits,
                   .extra_bits = form.extra_bits,
                   .add = form.add,
                   .zero = kZeros[static_cast<int>(form.zero)],
                   .scale = form.scale,
                   .is_super = form.is_super(),
                   .per_16 = form.per_16(),
                   .has_min = form.has_min(),
                   .has_table = form.table != ops::kNoTable,
                   .header_bytes = form.header_bytes(),
                   .scale_bytes = form.scale_bytes(),
                   .block_bytes = form.block_bytes(),
                   .table_low = 0,
                   .table_high = 0};
  for (int i = 0; i < 8 && n.has_table; ++i) {
    n.table_low |= static_cast<uint64_t>(ops::kTables[form.table][i]) << (8 * i);
    n.table_high |= static_cast<uint64_t>(ops::kTables[form.table][8 + i]) << (8 * i);
  }
  return n;
}

/** The code of row r, column c of a block, table looked up. */
__device__ __forceinline__ int32_t code_at(const FormNumbers& form, const uint8_t* planes, int32_t r, int32_t c) {
  const uint8_t* base = planes + 128 * form.extra_bits;
  const int32_t half = c / 16, w = c / 4 % 4, j = c % 4;
  int32_t code;
  if (form.base_bits == 8) {
    code = base[512 * half + 16 * r + c % 16];
  } else if (form.base_bits == 4) {
    code = base[16 * r + c % 16] >> (4 * half) & 15;
  } else {
    code = base[128 * half + 4 * r + j] >> (2 * w) & 3;
  }
  if (form.extra_bits == 1) code |= (planes[4 * r + j] >> (c / 4) & 1) << form.base_bits;
  if (form.extra_bits == 2) code |= (planes[128 * half + 4 * r + j] >> (2 * w) & 3) << form.base_bits;
  if (form.has_table) code = (code < 8 ? form.table_low : form.table_high) >> (code % 8 * 8) & 255;
  return code + form.add;
}

__device__ __forceinline__ float quantised_value(const FormNumbers& form, const uint8_t* panel, int32_t r, int32_t c) {
  const int32_t b = c / ops::kBlock, half = c % ops::kBlock / 16;
  const int32_t sub = form.is_super ? b % ops::kSuperBlocks : 0;
  const int32_t supers = form.is_super ? b / ops::kSuperBlocks : 0;
  const uint8_t* block = panel + static_cast<size_t>(b) * form.block_bytes +
                         static_cast<size_t>(supers + (form.is_super ? 1 : 0)) * form.header_bytes;
  const uint8_t* header = block - static_cast<size_t>(sub) * form.block_bytes - form.header_bytes;
  const uint8_t* d_at = form.is_super ? header : block;
  const auto d_bits = static_cast<uint16_t>(load_u16(d_at + 2 * r));
  float scale = form.scale == ops::ScaleKind::kPower ? bfloat_to_float(d_bits) : half_to_float(d_bits);
  float minimum = 0.0f;
  if (form.has_min) minimum = half_to_float(static_cast<uint16_t>(load_u16(d_at + 64 + 2 * r)));
  const uint32_t small = form.per_16 ? block[32 * half + r] : 0u;
  switch (form.scale) {
    case ops::ScaleKind::kHalf:
    case ops::ScaleKind::kPower:
      break;
    case ops::ScaleKind::kHalfMin:
      minimum = -minimum;  // the file adds it
      break;
    case ops::ScaleKind::kSuper32:
      scale *= from_int8(header[64 + 32 * sub + r]);
      break;
    case ops::ScaleKind::kSuper32Min:
      scale *= static_cast<float>(block[r]);
      minimum *= static_cast<float>(block[32 + r]);
      break;
    case ops::ScaleKind::kSuper16:
      scale *= from_int8(small);
      break;
    case ops::ScaleKind::kSuper16Min:
      scale *= static_cast<float>(small & 15u);
      minimum *= static_cast<float>(small >> 4);
      break;
  }
  const int32_t code = code_at(form, block + form.scale_bytes, r, c % ops::kBlock);
  const float value = scale * static_cast<float>(code - form.zero);
  return form.has_min ? value - minimum : value;
}

/** Of the fragments of device_weight.h. */
__device__ __forceinline__ uint16_t fragment_value(const uint8_t* panel, int32_t r, int32_t c) {
  const int32_t within = c % ops::kBlock;
  const int32_t t = within / 8, s = within % 8 / 4, high = within % 4 / 2;
  const int32_t lane = r % 8 * 4 + t;
  const int32_t word = ((s * 2 + r / 16) * kWarp + lane) * 4 + 2 * high + r % 16 / 8;
  const uint8_t* block = panel + static_cast<size_t>(c / ops::kBlock) * 2048;
  return static_cast<uint16_t>(load_u16(block + 4 * word + within % 2 * 2));
}

__global__ void __launch_bounds__(512) embed_kernel(EmbedArgs args) {
  const auto row = static_cast<int32_t>(blockIdx.x);
  if (row >= args.counts->rows) return;
  const int32_t token = args.tokens[row];
  const uint8_t* panel = args.panels + static_cast<size_t>(token / ops::kPanelRows) * args.panel_bytes;
  const int32_t r = token % ops::kPanelRows;
  float* out = args.out + static_cast<int64_t>(row) * args.cols;
  for (auto c = static_cast<int32_t>(threadIdx.x); c < args.cols; c += static_cast<int32_t>(blockDim.x)) {
    float value;
    if (args.id == ops::FormId::kF32) {
      value = reinterpret_cast<const float*>(panel)[static_cast<size_t>(c) * ops::kPanelRows + r];
    } else if (args.id == ops::FormId::kF16) {
      value = half_to_float(fragment_value(panel, r, c));
    } else if (args.id == ops::FormId::kBF16) {
      value = bfloat_to_float(fragment_value(panel, r, c));
    } else {
      value = quantised_value(args.form, panel, r, c);
    }
    out[c] = value * args.scale;
  }
}

}  // namespace

cudaError_t embed(const StepView& step, int32_t rows, const DeviceWeight& table, float scale, float* out,
                  KernelQueue queue) {
  EmbedArgs args = {.counts = step.counts,
                    .tokens = step.tokens,
                    .panels = table.panels,
                    .panel_bytes = table.panel_bytes,
                    .out = out,
                    .scale = scale,
                    .cols = static_cast<int32_t>(table.cols),
                    .id = table.form,
                    .form = {}};
  if (ops::is_quantised(table.form)) args.form = numbers_of(ops::packed_form(table.form));
  const uint32_t threads = args.cols >= 512 ? 512 : static_cast<uint32_t>((args.cols + kWarp - 1) / kWarp * kWarp);
  return launch(embed_kernel, {.grid = dim3(static_cast<uint32_t>(rows)), .block = dim3(threads)}, queue, args);
}

}  // namespace banter::cuda
