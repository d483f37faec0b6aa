#include "backend_cuda/executor.h"

#include <algorithm>
#include <cstddef>

#include "backend_cuda/rope.h"

namespace banter::cuda {
namespace {

int32_t rows_of(int32_t rows, const StepShape& grid) {
  return rows == kAllRows ? grid.rows : rows;
}

/** Splits that a row of this window can have at most. */
int32_t splits_of(int32_t window, int32_t splits) {
  return window == 0 ? splits : std::min(splits, (window - 1) / kSplitKeys + 2);
}

void reads(ScratchNeeds& needs, const DeviceWeight& weight, int32_t rows, const DeviceLimits& device) {
  needs.forms = needs.forms | forms_read_by(weight.form, device);
  needs.rows = std::max(needs.rows, rows);
  needs.cols = std::max(needs.cols, weight.cols);
}

}  // namespace

struct Executor::Call {
  const Program& program;
  size_t index;  // of the op in the program
  const StepShape& grid;
  StepView view;
  const StepUpload& upload;
  const PageSources& pages;
  KernelQueue queue;

  DevicePages device_pages(const PagesOp& op) const {
    DevicePages result;
    if (op.page_stride == 0) return result;
    result.slabs = upload.slab_table(pages.source_of(static_cast<size_t>(op.group)));
    result.page_stride = op.page_stride;
    result.slab_shift = op.slab_shift;
    result.group = op.group;
    result.geometry = {op.type, op.layers, op.kv_heads, op.head_dim, op.page_tokens};
    return result;
  }
};

Result<void> Executor::prepare(const Program& program, const StepShape& grid) {
  ScratchNeeds needs;
  for (const Op& op : program) {
    if (const auto* linear = std::get_if<LinearOp>(&op)) {
      for (int32_t t = 0; t < linear->targets; ++t) {
        reads(needs, *linear->weights[t], rows_of(linear->rows, grid), device_);
      }
    } else if (const auto* gated = std::get_if<GatedOp>(&op)) {
      const int32_t rows = rows_of(gated->rows, grid);
      reads(needs, *gated->gate, rows, device_);
      reads(needs, *gated->up, rows, device_);
      needs.cols = std::max(needs.cols, gated->gate->rows);
      needs.products = std::max(needs.products, static_cast<size_t>(rows) * static_cast<size_t>(gated->gate->rows));
    } else if (const auto* logits = std::get_if<LogitsOp>(&op)) {
      reads(needs, *logits->head, grid.logit_rows, device_);
    } else if (std::holds_alternative<BestLogitsOp>(op)) {
      needs.best_rows = static_cast<size_t>(grid.logit_rows);
    } else if (const auto* attention = std::get_if<AttentionOp>(&op)) {
      needs.partials =
          std::max(needs.partials, attention_partial_floats(grid.tiles, attention->heads, attention->kv.kv_heads,
                                                            attention->kv.head_dim,
                                                            splits_of(attention->window, grid.splits), grid.tile_rows));
    }
  }
  return scratch_.reserve(needs);
}

Result<void> Executor::issue(const Program& program, const StepShape& grid, bool counted, const StepUpload& upload,
                             const PageSources& pages, KernelQueue queue) {
  scratch_.begin();
  Call call{program, 0, grid, upload.view(counted), upload, pages, queue};
  for (; call.index < program.size(); ++call.index) {
    const cudaError_t status = std::visit([&](const auto& op) { return run(call, op); }, program[call.index]);
    if (status != cudaSuccess) return check(status, "queueing a step's kernels");
  }
  return {};
}

QuantisedForms Executor::forms_wanted(const Program& program, size_t from, const float* x) const {
  for (size_t i = from; i < program.size(); ++i) {
    if (const auto* linear = std::get_if<LinearOp>(&program[i]); linear != nullptr && linear->x == x) {
      QuantisedForms forms;
      for (int32_t t = 0; t < linear->targets; ++t) forms = forms | forms_read_by(linear->weights[t]->form, device_);
      return forms;
    }
    if (const auto* gated = std::get_if<GatedOp>(&program[i]); gated != nullptr && gated->x == x) {
      return forms_read_by(gated->gate->form, device_) | forms_read_by(gated->up->form, device_);
    }
  }
  return {};
}

cudaError_t Executor::quantised(const Call& call, const float* x, int32_t rows, int64_t cols, QuantisedForms forms,
                                QuantisedRows& out) {
  if (!forms.any() || scratch_.find(x, rows, forms, out)) return cudaSuccess;
  out = scratch_.make(x, rows, cols, forms);
  return quantise(call.view, x, rows, static_cast<int32_t>(cols), nullptr, out, call.queue);
}

cudaError_t Executor::run(const Call& call, const EmbedOp& op) {
  return embed(call.view, call.grid.rows, *op.table, op.scale, op.out, call.queue);
}

cudaError_t Executor::run(const Call& call, const NormOp& op) {
  const int32_t rows = rows_of(op.rows, call.grid);
  scratch_.written(op.residual);
  QuantisedRows forms;
  if (op.out != nullptr) {
    scratch_.written(op.out);
    const QuantisedForms wanted = forms_wanted(call.program, call.index + 1, op.out);
    if (wanted.any()) forms = scratch_.make(op.out, rows, op.dim, wanted);
  }
  const ops::NormParams params{op.residual, op.delta, op.delta_norm, op.norm, op.out, rows, op.dim, op.epsilon};
  return norm(call.view, params, forms, call.queue);
}

cudaError_t Executor::run(const Call& call, const LinearOp& op) {
  LinearArgs args{};
  args.x = op.x;
  args.rows = rows_of(op.rows, call.grid);
  args.targets = op.targets;
  QuantisedForms forms;
  for (int32_t t = 0; t < op.targets; ++t) {
    args.weights[t] = op.weights[t];
    args.biases[t] = op.biases[t];
    args.ys[t] = op.ys[t];
    forms = forms | forms_read_by(op.weights[t]->form, device_);
  }
  const int64_t cols = op.weights[0]->cols;
  if (const cudaError_t made = quantised(call, op.x, args.rows, cols, forms, args.quantised); made != cudaSuccess) {
    return made;
  }
  for (int32_t t = 0; t < op.targets; ++t) scratch_.written(op.ys[t]);
  return linear(call.view, args, device_, call.queue);
}

cudaError_t Executor::run(const Call& call, const GatedOp& op) {
  GatedArgs args{};
  args.gate = op.gate;
  args.up = op.up;
  args.x = op.x;
  args.rows = rows_of(op.rows, call.grid);
  args.activation = op.activation;
  args.out = op.out;
  args.scratch = scratch_.product();
  const QuantisedForms forms = forms_read_by(op.gate->form, device_) | forms_read_by(op.up->form, device_);
  const int64_t cols = op.gate->cols;
  if (const cudaError_t made = quantised(call, op.x, args.rows, cols, forms, args.quantised); made != cudaSuccess) {
    return made;
  }
  scratch_.written(op.out);
  const QuantisedForms wanted = forms_wanted(call.program, call.index + 1, op.out);
  if (wanted.any()) {
    args.quantised_out = scratch_.make(op.out, args.rows, op.gate->rows, wanted);
  }
  return gated(call.view, args, device_, call.queue);
}

cudaError_t Executor::run(const Call& call, const RopeKvOp& op) {
  scratch_.written(op.q);
  RopeKvArgs args{};
  args.q = op.q;
  args.k = op.k;
  args.v = op.v;
  args.q_norm = op.q_norm;
  args.k_norm = op.k_norm;
  args.k_shift = op.k_shift;
  args.epsilon = op.epsilon;
  if (op.rope != nullptr) {
    args.cos_sin = op.rope->table.as<const float>();
    args.pairs = op.rope->pairs;
    args.adjacent_pairs = op.rope->adjacent_pairs;
  }
  args.heads = op.heads;
  args.layer = op.layer;
  args.kv = call.device_pages(op.kv);
  args.recent = call.device_pages(op.recent);
  return rope_kv(call.view, call.grid.rows, args, call.queue);
}

cudaError_t Executor::run(const Call& call, const AttentionOp& op) {
  scratch_.written(op.out);
  AttentionArgs args{};
  args.q = op.q;
  args.out = op.out;
  args.heads = op.heads;
  args.layer = op.layer;
  args.window = op.window;
  args.scale = op.scale;
  args.softcap = op.softcap;
  args.kv = call.device_pages(op.kv);
  args.recent = call.device_pages(op.recent);
  args.partials = scratch_.partials();
  args.splits = splits_of(op.window, call.grid.splits);
  args.tile_rows = call.grid.tile_rows;
  return attention(call.view, call.grid.tiles, args, device_, call.queue);
}

cudaError_t Executor::run(const Call& call, const LogitsOp& op) {
  LinearArgs args{};
  args.x = op.x;
  args.rows = call.grid.logit_rows;
  args.logit_rows = true;
  args.targets = 1;
  args.weights[0] = op.head;
  args.ys[0] = op.logits;
  args.softcap = op.softcap;
  const QuantisedForms forms = forms_read_by(op.head->form, device_);
  if (forms.any()) {  // the rows that want logits, gathered
    const auto cols = static_cast<int32_t>(op.head->cols);
    args.quantised = scratch_.make(nullptr, args.rows, cols, forms);
    const cudaError_t made =
        quantise(call.view, op.x, args.rows, cols, call.view.logit_rows, args.quantised, call.queue);
    if (made != cudaSuccess) return made;
  }
  return linear(call.view, args, device_, call.queue);
}

cudaError_t Executor::run(const Call& call, const BestLogitsOp& op) {
  return best_logits(call.view, op.logits, call.grid.logit_rows, op.vocabulary, scratch_.best_rows(), call.queue);
}

}  // namespace banter::cuda
