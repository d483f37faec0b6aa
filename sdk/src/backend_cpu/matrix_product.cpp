#include "backend_cpu/matrix_product.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace banter::cpu {
namespace {

/** Rows quantised at once, which bounds the scratch; a multiple of every tile. */
constexpr int32_t kChunkRows = 768;
/** Activations of a slice stay in the second-level cache beside the panel that passes over them. */
constexpr int64_t kSliceBytes = 512 << 10;
constexpr int64_t kMaxSliceRows = 192;
constexpr int64_t kSliceStep = 12;  // a multiple of the register tiles, 4 and 6
/** A unit's aim: long against claiming it (0.1 µs), short against an op (50 µs and more). */
constexpr double kUnitNanoseconds = 6000;
constexpr double kBytesPerNanosecond = 20;        // what a core streams
constexpr double kOperationsPerNanosecond = 300;  // what a core computes

Error no_scratch(size_t bytes) {
  return {BANTER_ERROR_OUT_OF_MEMORY, "The CPU backend could not get " + std::to_string(bytes >> 10) +
                                          " KiB of scratch memory for a step; lower the step's token budget or free "
                                          "memory."};
}

bool reads_blocks(const PackedWeight& weight) {
  return is_quantised(weight.form);
}

}  // namespace

/** A share of an output: panels [first_panel, first_panel + panels) for rows [first_row, first_row + rows). */
struct MatrixProduct::Slice {
  int64_t first_panel = 0, panels = 0;
  int64_t first_row = 0, rows = 0;
};

Result<const ActivationBlock*> MatrixProduct::quantize(const float* x, int32_t rows, int64_t cols,
                                                       const int32_t* indices) {
  const int64_t blocks = cols / kBlock;
  const size_t bytes = static_cast<size_t>(rows) * static_cast<size_t>(blocks) * sizeof(ActivationBlock);
  auto* out = static_cast<ActivationBlock*>(blocks_.reserve(bytes));
  if (out == nullptr) return no_scratch(bytes);
  // About 2 µs a unit; a lone row is not worth waking anyone for.
  const int64_t rows_each = std::max<int64_t>(1, 8192 / cols);
  pool_.for_each(static_cast<int32_t>((rows + rows_each - 1) / rows_each), [&](int32_t unit, int32_t) {
    for (int64_t row = unit * rows_each; row < std::min<int64_t>(rows, (unit + 1) * rows_each); ++row) {
      const int64_t from = indices != nullptr ? indices[row] : row;
      kernels_.quantize(x + from * cols, cols, out + row * blocks);
    }
  });
  return out;
}

void MatrixProduct::run_panel(const Inputs& inputs, const PackedWeight& weight, const Slice& slice, int64_t panel,
                              float* y, size_t y_stride) const {
  PanelCall call;
  call.panel = weight.panels + static_cast<size_t>(panel) * weight.panel_bytes;
  call.cols = weight.cols;
  call.x = reads_blocks(weight) ? static_cast<const void*>(inputs.blocks + slice.first_row * weight.blocks())
                                : static_cast<const void*>(inputs.floats + slice.first_row * weight.cols);
  call.tokens = slice.rows;
  call.y = y;
  call.y_stride = y_stride;
  call.rows = static_cast<int>(std::min<int64_t>(kPanelRows, weight.rows - panel * kPanelRows));
  call.prefetch = slice.first_row == 0;
  kernels_.panel[static_cast<int>(weight.form)](call);
}

void MatrixProduct::run_slice(const Inputs& inputs, const Output& output, const Slice& slice) const {
  const PackedWeight& weight = *output.weight;
  const auto stride = static_cast<size_t>(weight.rows);
  for (int64_t panel = slice.first_panel; panel < slice.first_panel + slice.panels; ++panel) {
    const int64_t column = panel * kPanelRows;
    const auto count = static_cast<size_t>(std::min<int64_t>(kPanelRows, weight.rows - column));
    float* y = output.y + static_cast<size_t>(slice.first_row) * stride + column;
    run_panel(inputs, weight, slice, panel, y, stride);
    if (output.gate != nullptr) {
      alignas(64) float gate[kMaxSliceRows * kPanelRows];
      run_panel(inputs, *output.gate, slice, panel, gate, kPanelRows);
      for (int64_t row = 0; row < slice.rows; ++row) {
        float* to = y + static_cast<size_t>(row) * stride;
        kernels_.gate(output.activation, gate + row * kPanelRows, to, to, count);
      }
    }
    if (output.bias != nullptr) {
      for (int64_t row = 0; row < slice.rows; ++row) {
        float* to = y + static_cast<size_t>(row) * stride;
        for (size_t i = 0; i < count; ++i) to[i] += output.bias[column + static_cast<int64_t>(i)];
      }
    }
    if (output.softcap > 0) {
      for (int64_t row = 0; row < slice.rows; ++row) {
        kernels_.softcap(y + static_cast<size_t>(row) * stride, count, output.softcap);
      }
    }
  }
}

/** One or more outputs over at most kChunkRows rows. Units run through the outputs, then slices of rows, then groups of
 *  panels, so that a slice's activations stay in cache while panels pass. */
void MatrixProduct::multiply_chunk(const Inputs& inputs, std::span<const Output> outputs) {
  struct Plan {
    int64_t group, groups, slice_rows;
    int64_t first_unit;
  };
  constexpr size_t kMaxOutputs = 16;
  std::array<Plan, kMaxOutputs> plans;
  for (; outputs.size() > kMaxOutputs; outputs = outputs.subspan(kMaxOutputs)) {
    multiply_chunk(inputs, outputs.first(kMaxOutputs));
  }
  int64_t units = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const PackedWeight& weight = *outputs[i].weight;
    const int64_t row_bytes = weight.cols * (reads_blocks(weight) ? 2 : 4);
    Plan& plan = plans[i];
    plan.slice_rows = std::clamp(kSliceBytes / row_bytes / kSliceStep * kSliceStep, kSliceStep, kMaxSliceRows);
    const int64_t rows = std::min<int64_t>(inputs.rows, plan.slice_rows);
    const double cost = std::max(static_cast<double>(weight.panel_bytes) / kBytesPerNanosecond,
                                 2.0 * kPanelRows * static_cast<double>(weight.cols * rows) / kOperationsPerNanosecond);
    const int64_t panels = outputs[i].panel_count();
    const int64_t fair = std::max<int64_t>(1, panels / (4 * pool_.threads()));
    plan.group = std::clamp<int64_t>(static_cast<int64_t>(kUnitNanoseconds / cost), 1, fair);
    plan.groups = (panels + plan.group - 1) / plan.group;
    plan.first_unit = units;
    units += plan.groups * ((inputs.rows + plan.slice_rows - 1) / plan.slice_rows);
  }
  pool_.for_each(static_cast<int32_t>(units), [&](int32_t unit, int32_t) {
    size_t i = outputs.size() - 1;
    while (plans[i].first_unit > unit) --i;
    const Plan& plan = plans[i];
    const int64_t local = unit - plan.first_unit;
    Slice slice;
    const int64_t panel = local % plan.groups * plan.group;
    slice.first_panel = outputs[i].first_panel() + panel;
    slice.panels = std::min(plan.group, outputs[i].panel_count() - panel);
    slice.first_row = local / plan.groups * plan.slice_rows;
    slice.rows = std::min<int64_t>(plan.slice_rows, inputs.rows - slice.first_row);
    run_slice(inputs, outputs[i], slice);
  });
}

Result<void> MatrixProduct::multiply(const float* x, int32_t rows, int64_t cols, std::span<const Output> outputs) {
  const bool any_blocks = std::any_of(outputs.begin(), outputs.end(), [](const Output& o) {
    return reads_blocks(*o.weight) || (o.gate != nullptr && reads_blocks(*o.gate));
  });
  std::array<Output, 16> shifted;
  for (int32_t first = 0; first < rows; first += kChunkRows) {
    Inputs inputs;
    inputs.rows = std::min(kChunkRows, rows - first);
    inputs.floats = x + static_cast<int64_t>(first) * cols;
    if (any_blocks) {
      auto blocks = quantize(inputs.floats, inputs.rows, cols, nullptr);
      if (!blocks) return blocks.error();
      inputs.blocks = *blocks;
    }
    for (size_t begin = 0; begin < outputs.size(); begin += shifted.size()) {
      const size_t count = std::min(shifted.size(), outputs.size() - begin);
      for (size_t i = 0; i < count; ++i) {
        shifted[i] = outputs[begin + i];
        shifted[i].y += static_cast<int64_t>(first) * shifted[i].weight->rows;
      }
      multiply_chunk(inputs, {shifted.data(), count});
    }
  }
  return {};
}

Result<void> MatrixProduct::linear(const ops::LinearParams& params) {
  std::array<Output, 16> outputs;
  for (size_t begin = 0; begin < params.targets.size(); begin += outputs.size()) {
    const size_t count = std::min(outputs.size(), params.targets.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      const ops::LinearTarget& target = params.targets[begin + i];
      outputs[i] = {.weight = static_cast<const PackedWeight*>(target.weight), .bias = target.bias, .y = target.y};
    }
    auto done = multiply(params.x, params.rows, outputs[0].weight->cols, {outputs.data(), count});
    if (!done) return done;
  }
  return {};
}

Result<void> MatrixProduct::gated(const ops::GatedParams& params) {
  const Output output{.weight = static_cast<const PackedWeight*>(params.up),
                      .gate = static_cast<const PackedWeight*>(params.gate),
                      .y = params.out,
                      .activation = params.activation};
  return multiply(params.x, params.rows, output.weight->cols, {&output, 1});
}

Result<void> MatrixProduct::logits(const ops::LogitsParams& params) {
  Output output{.weight = static_cast<const PackedWeight*>(params.head),
                .y = params.logits,
                .softcap = params.softcap,
                .part = params.part,
                .parts = params.parts};
  const int64_t cols = output.weight->cols;
  const auto rows = static_cast<int32_t>(params.row_indices.size());
  for (int32_t first = 0; first < rows; first += kChunkRows) {
    const int32_t count = std::min(kChunkRows, rows - first);
    const int32_t* indices = params.row_indices.data() + first;
    Inputs inputs;
    inputs.rows = count;
    if (reads_blocks(*output.weight)) {
      auto blocks = quantize(params.x, count, cols, indices);
      if (!blocks) return blocks.error();
      inputs.blocks = *blocks;
    } else {
      const size_t row_bytes = static_cast<size_t>(cols) * sizeof(float);
      auto* gathered = static_cast<float*>(gathered_.reserve(static_cast<size_t>(count) * row_bytes));
      if (gathered == nullptr) return no_scratch(static_cast<size_t>(count) * row_bytes);
      for (int32_t row = 0; row < count; ++row)
        std::memcpy(gathered + row * cols, params.x + indices[row] * cols, row_bytes);
      inputs.floats = gathered;
    }
    multiply_chunk(inputs, {&output, 1});
    output.y += static_cast<int64_t>(count) * output.weight->rows;
  }
  return {};
}

Result<void> MatrixProduct::embed(std::span<const int32_t> tokens, const ops::EmbedParams& params) {
  const auto& table = *static_cast<const PackedWeight*>(params.table);
  for (const int32_t token : tokens) {
    if (token < 0 || token >= table.rows) {
      return Error{BANTER_ERROR_INVALID_ARGUMENT, "Token " + std::to_string(token) + " is outside the model's " +
                                                      std::to_string(table.rows) +
                                                      " embeddings; use the tokenizer of the same model."};
    }
  }
  pool_.for_each(static_cast<int32_t>(tokens.size()), [&](int32_t row, int32_t) {
    unpack_row(table, tokens[row], params.scale, params.out + row * table.cols);
  });
  return {};
}

}  // namespace banter::cpu
