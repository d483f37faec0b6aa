#include "model/decoder.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "model/key_shift.h"

namespace banter::model {

namespace {

constexpr int64_t kMostHeadParts = 32;
constexpr uint64_t kAlignment = 16;  // floats: every buffer starts at a 64-byte boundary

uint64_t aligned(uint64_t floats) {
  return (floats + kAlignment - 1) / kAlignment * kAlignment;
}

// Rows of a buffer in floats, in the order in which Decoder::allocate_buffers hands them out.
struct RowWidths {
  explicit RowWidths(const Hyperparameters& hp)
      : d(static_cast<uint64_t>(hp.embedding)),
        q(static_cast<uint64_t>(hp.q_dim())),
        k(static_cast<uint64_t>(hp.kv_dim())),
        f(static_cast<uint64_t>(hp.feed_forward)) {}
  uint64_t d, q, k, f;
};

int64_t elements(const ops::Weight& weight) {
  return weight.rows * weight.cols;
}

int64_t elements(const LayerWeights& layer) {
  int64_t sum = 0;
  for (const auto* weight : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) {
    sum += elements(**weight);
  }
  return sum;
}

Error invalid(std::string message) {
  return Error{BANTER_ERROR_INVALID_ARGUMENT, std::move(message)};
}

}  // namespace

uint64_t decoder_buffer_bytes(const Hyperparameters& hp, int32_t max_rows, int32_t max_logit_rows) {
  const RowWidths w(hp);
  const uint64_t rows = static_cast<uint64_t>(max_rows);
  const uint64_t floats = 3 * aligned(rows * w.d) + 2 * aligned(rows * w.q) + 2 * aligned(rows * w.k) +
                          aligned(rows * w.f) +
                          aligned(static_cast<uint64_t>(max_logit_rows) * static_cast<uint64_t>(hp.vocabulary));
  return floats * sizeof(float);
}

Result<std::unique_ptr<Decoder>> Decoder::create(const Hyperparameters& hp, const DecoderWeights& weights,
                                                 ops::Backend& backend, ops::KvType kv_type, int32_t max_rows,
                                                 int32_t max_logit_rows) {
  std::unique_ptr<Decoder> decoder(new Decoder(hp, weights, backend));  // the constructor is private
  for (const ops::RopeSpec& spec : hp.ropes) {
    Result<std::unique_ptr<ops::Rope>> rope = backend.create_rope(spec);
    if (!rope) return rope.error();
    decoder->ropes_.push_back(std::move(*rope));
  }
  if (ops::kv_is_quantised(kv_type) && can_shift_keys(hp, backend)) {
    if (Result<void> made = decoder->make_key_shifts(); !made) return made.error();
  }
  decoder->head_parts_ = static_cast<int32_t>(
      std::clamp<int64_t>(elements(weights.output_head()) / elements(weights.layers.back()), 1, kMostHeadParts));
  if (Result<void> done = decoder->allocate_buffers(max_rows, max_logit_rows); !done) return done.error();
  return decoder;
}

Result<void> Decoder::make_key_shifts() {
  const auto width = static_cast<size_t>(hp_.kv_dim());
  std::vector<float> shifts, bias(width);
  std::vector<size_t> starts(weights_.layers.size(), SIZE_MAX);
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    if (weights_.layers[i].k_bias == nullptr) continue;
    Result<void> read = backend_.copy_to_host(bias.data(), weights_.layers[i].k_bias, width * sizeof(float));
    if (!read) return read;
    const int32_t rope = hp_.layer_kinds[i].rope;
    const std::vector<float> shift =
        key_shift(rope < 0 ? nullptr : &hp_.ropes[static_cast<size_t>(rope)], bias, hp_.head_dim);
    starts[i] = shifts.size();
    shifts.insert(shifts.end(), shift.begin(), shift.end());
  }
  if (shifts.empty()) return {};
  Result<DeviceBuffer> memory = DeviceBuffer::create(backend_, shifts.size() * sizeof(float));
  if (!memory) return memory.error();
  shift_memory_ = std::move(*memory);
  const auto* const start = static_cast<const float*>(shift_memory_.data());
  for (const size_t at : starts) key_shifts_.push_back(at == SIZE_MAX ? nullptr : start + at);
  return backend_.copy_from_host(shift_memory_.data(), shifts.data(), shifts.size() * sizeof(float));
}

Result<void> Decoder::allocate_buffers(int32_t max_rows, int32_t max_logit_rows) {
  max_rows_ = max_rows;
  max_logit_rows_ = max_logit_rows;
  Result<DeviceBuffer> memory = DeviceBuffer::create(backend_, decoder_buffer_bytes(hp_, max_rows, max_logit_rows));
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  float* next = static_cast<float*>(memory_.data());
  const auto take = [&](uint64_t rows, uint64_t width) {
    float* start = next;
    next += aligned(rows * width);
    return start;
  };
  const RowWidths w(hp_);
  const uint64_t rows = static_cast<uint64_t>(max_rows);
  residual_ = take(rows, w.d);
  hidden_ = take(rows, w.d);
  delta_ = take(rows, w.d);
  q_ = take(rows, w.q);
  attended_ = take(rows, w.q);
  k_ = take(rows, w.k);
  v_ = take(rows, w.k);
  gated_ = take(rows, w.f);
  logits_ = take(static_cast<uint64_t>(max_logit_rows), static_cast<uint64_t>(hp_.vocabulary));
  if (!backend_.is_host_memory()) {
    host_logits_.resize(static_cast<size_t>(max_logit_rows) * static_cast<size_t>(hp_.vocabulary));
  }
  tokens_.reserve(rows);
  positions_.reserve(rows);
  logit_rows_.reserve(static_cast<size_t>(max_logit_rows));
  sequences_.reserve(rows);
  return {};
}

Result<void> Decoder::check(const kv::PagePool& pool, const Batch& batch) const {
  size_t groups = 0;
  for (const LayerKind& layer : hp_.layer_kinds) groups = std::max(groups, static_cast<size_t>(layer.kv_group) + 1);
  for (size_t g = 0, own = groups; g < std::min(own, pool.groups().size()); ++g)
    groups += pool.groups()[g].companion >= 0;
  if (pool.groups().size() != groups) return invalid("the KV pool was not made for this model");
  size_t rows = 0, logit_rows = 0;
  for (const Chunk& chunk : batch.chunks) {
    if (chunk.cache == nullptr || chunk.tokens.empty()) return invalid("a chunk has no cache or no tokens");
    rows += chunk.tokens.size();
    if (rows > static_cast<size_t>(max_rows_)) {
      return invalid("a batch of more than " + std::to_string(max_rows_) + " rows was given");
    }
    if (chunk.logits != LogitRows::kNone) logit_rows += chunk.logits == LogitRows::kAll ? chunk.tokens.size() : 1;
    const int64_t end = int64_t{chunk.cache->length()} + static_cast<int64_t>(chunk.tokens.size());
    if (end > hp_.context) {
      return Error{BANTER_ERROR_CONTEXT_FULL, "position " + std::to_string(end - 1) + " is outside the context of " +
                                                  std::to_string(hp_.context) + " tokens"};
    }
    if (end > chunk.cache->writable()) return invalid("a chunk's cache has no room reserved for its tokens");
    for (const TokenId token : chunk.tokens) {
      if (token < 0 || token >= hp_.vocabulary) {
        return invalid("token " + std::to_string(token) + " is outside the vocabulary of " +
                       std::to_string(hp_.vocabulary));
      }
    }
  }
  if (logit_rows > static_cast<size_t>(max_logit_rows_)) {
    return invalid("logits of more than " + std::to_string(max_logit_rows_) + " rows were asked of one batch");
  }
  return {};
}

void Decoder::pack(const kv::PagePool& pool, const Batch& batch) {
  tokens_.clear();
  positions_.clear();
  logit_rows_.clear();
  sequences_.clear();
  for (const Chunk& chunk : batch.chunks) {
    const int32_t count = static_cast<int32_t>(chunk.tokens.size());
    ops::StepSequence sequence;
    sequence.first_row = static_cast<int32_t>(tokens_.size());
    sequence.rows = count;
    sequence.position = chunk.cache->length();
    for (size_t g = 0; g < pool.groups().size(); ++g)
      sequence.page_tables[g] = chunk.cache->table(static_cast<int32_t>(g));
    sequences_.push_back(sequence);
    for (int32_t i = 0; i < count; ++i) {
      tokens_.push_back(chunk.tokens[static_cast<size_t>(i)]);
      positions_.push_back(sequence.position + i);
    }
    const int32_t first_wanted = chunk.logits == LogitRows::kAll    ? 0
                                 : chunk.logits == LogitRows::kLast ? count - 1
                                                                    : count;
    for (int32_t i = first_wanted; i < count; ++i) logit_rows_.push_back(sequence.first_row + i);
  }
}

Result<void> Decoder::run(const kv::PagePool& pool, const Batch& batch, bool best) {
  if (Result<void> ok = check(pool, batch); !ok) return ok;
  logit_rows_.clear();
  logit_error_.reset();
  if (batch.chunks.empty()) return {};
  pack(pool, batch);
  const int32_t rows = static_cast<int32_t>(tokens_.size());
  backend_.begin_step({.tokens = tokens_, .positions = positions_, .sequences = sequences_});
  backend_.embed({.table = weights_.embedding.get(), .out = residual_, .scale = hp_.embedding_scale});
  backend_.norm({.residual = residual_,
                 .norm = weights_.layers[0].attention_norm,
                 .out = hidden_,
                 .rows = rows,
                 .dim = hp_.embedding,
                 .epsilon = hp_.norm_epsilon});
  // The head reads as much as several layers do, and comes in as many parts where somebody rests in between.
  const auto layers = static_cast<int32_t>(weights_.layers.size());
  const int32_t heads = logit_rows_.empty() ? 0 : batch.between_layers ? head_parts_ : 1;
  for (int32_t i = 0; i < layers + heads; ++i) {
    if (i > 0 && batch.between_layers && !batch.between_layers()) return backend_.end_step();
    if (i < layers) {
      run_layer(pool, static_cast<size_t>(i));
    } else {
      backend_.logits({.head = &weights_.output_head(),
                       .x = hidden_,
                       .row_indices = logit_rows_,
                       .logits = logits_,
                       .softcap = hp_.logit_softcap,
                       .part = i - layers,
                       .parts = heads});
    }
  }
  if (best && heads > 0) backend_.best_logits();
  if (Result<void> ran = backend_.end_step(); !ran) return ran;
  for (const Chunk& chunk : batch.chunks) chunk.cache->advance(static_cast<int32_t>(chunk.tokens.size()));
  return {};
}

Result<std::span<float>> Decoder::fetch(int32_t first_row, int32_t rows) {
  const auto vocabulary = static_cast<size_t>(hp_.vocabulary);
  const size_t at = static_cast<size_t>(first_row) * vocabulary, wanted = static_cast<size_t>(rows) * vocabulary;
  if (backend_.is_host_memory()) return std::span<float>(logits_ + at, wanted);
  Result<void> copied = backend_.copy_to_host(host_logits_.data() + at, logits_ + at, wanted * sizeof(float));
  if (!copied && !logit_error_) logit_error_ = copied.error();
  if (!copied) return copied.error();
  return std::span<float>(host_logits_.data() + at, wanted);
}

Result<std::span<float>> Decoder::forward(const kv::PagePool& pool, const Batch& batch) {
  if (Result<void> ran = run(pool, batch, false); !ran) return ran.error();
  return fetch(0, static_cast<int32_t>(logit_rows_.size()));
}

Result<int32_t> Decoder::forward_best(const kv::PagePool& pool, const Batch& batch) {
  if (Result<void> ran = run(pool, batch, backend_.finds_best_logits()); !ran) return ran.error();
  return static_cast<int32_t>(logit_rows_.size());
}

sampling::LogitRow Decoder::logit_row(int32_t row) {
  if (!backend_.finds_best_logits()) {
    Result<std::span<float>> all = fetch(row, 1);
    return all ? sampling::LogitRow(*all) : sampling::LogitRow();
  }
  const ops::BestLogits best = backend_.best_row(row);
  sampling::LogitRow result;
  result.best = best.ids;
  result.best_logits = best.logits;
  result.rest = best.rest;
  result.fetch = [](void* decoder, int32_t index) {
    Result<std::span<float>> all = static_cast<Decoder*>(decoder)->fetch(index, 1);
    return all ? *all : std::span<float>();
  };
  result.context = this;
  result.row = row;
  return result;
}

void Decoder::run_layer(const kv::PagePool& pool, size_t index) {
  const int32_t rows = static_cast<int32_t>(tokens_.size());
  const bool is_last = index + 1 == weights_.layers.size();
  // Behind the last layer's attention only rows that want logits matter: in prefill that spares the largest part of a
  // layer for all rows but one.
  int32_t first_row = 0;
  if (is_last) first_row = logit_rows_.empty() ? rows : logit_rows_.front();
  run_attention(pool, index);
  if (first_row < rows) run_tail(index, first_row);
}

void Decoder::run_attention(const kv::PagePool& pool, size_t index) {
  const LayerWeights& layer = weights_.layers[index];
  const LayerKind& kind = hp_.layer_kinds[index];
  const ops::KvPages& kv = pool.pages(kind.kv_group);
  const ops::KvPages* recent = pool.companion_pages(kind.kv_group);
  const bool may_shift = !key_shifts_.empty() && ops::kv_is_quantised(kv.geometry.type);
  const float* const shift = may_shift ? key_shifts_[index] : nullptr;
  const ops::LinearTarget qkv[] = {
      {layer.q.get(), layer.q_bias, q_}, {layer.k.get(), layer.k_bias, k_}, {layer.v.get(), layer.v_bias, v_}};
  backend_.linear({.x = hidden_, .rows = static_cast<int32_t>(tokens_.size()), .targets = qkv});
  backend_.rope_kv({.q = q_,
                    .k = k_,
                    .v = v_,
                    .q_norm = layer.q_norm,
                    .k_norm = layer.k_norm,
                    .epsilon = hp_.norm_epsilon,
                    .rope = kind.rope < 0 ? nullptr : ropes_[static_cast<size_t>(kind.rope)].get(),
                    .heads = hp_.heads,
                    .kv = &kv,
                    .layer = kind.kv_layer,
                    .recent = recent,
                    .k_shift = shift});
  const bool is_last = index + 1 == weights_.layers.size();
  if (is_last && logit_rows_.empty()) return;  // this step only fills the cache
  backend_.attention({.q = q_,
                      .out = attended_,
                      .heads = hp_.heads,
                      .kv = &kv,
                      .layer = kind.kv_layer,
                      .window = kind.window,
                      .scale = hp_.attention_scale,
                      .softcap = hp_.attention_softcap,
                      .recent = recent});
}

// Output projection and feed-forward of rows [first_row, rows), and the norm in front of what comes next.
void Decoder::run_tail(size_t index, int32_t first_row) {
  const LayerWeights& layer = weights_.layers[index];
  const int32_t rows = static_cast<int32_t>(tokens_.size()) - first_row;
  const size_t skip = static_cast<size_t>(first_row);
  const size_t d = static_cast<size_t>(hp_.embedding);
  const float* attended = attended_ + skip * static_cast<size_t>(hp_.q_dim());
  float* residual = residual_ + skip * d;
  float* hidden = hidden_ + skip * d;
  float* delta = delta_ + skip * d;
  float* gated = gated_ + skip * static_cast<size_t>(hp_.feed_forward);

  const ops::LinearTarget output[] = {{layer.output.get(), layer.output_bias, delta}};
  backend_.linear({.x = attended, .rows = rows, .targets = output});
  backend_.norm({.residual = residual,
                 .delta = delta,
                 .delta_norm = layer.post_attention_norm,
                 .norm = layer.feed_forward_norm,
                 .out = hidden,
                 .rows = rows,
                 .dim = hp_.embedding,
                 .epsilon = hp_.norm_epsilon});
  backend_.gated({.gate = layer.gate.get(),
                  .up = layer.up.get(),
                  .x = hidden,
                  .out = gated,
                  .rows = rows,
                  .activation = hp_.activation});
  const ops::LinearTarget down[] = {{layer.down.get(), nullptr, delta}};
  backend_.linear({.x = gated, .rows = rows, .targets = down});
  const bool is_last = index + 1 == weights_.layers.size();
  backend_.norm({.residual = residual,
                 .delta = delta,
                 .delta_norm = layer.post_feed_forward_norm,
                 .norm = is_last ? weights_.output_norm : weights_.layers[index + 1].attention_norm,
                 .out = hidden,
                 .rows = rows,
                 .dim = hp_.embedding,
                 .epsilon = hp_.norm_epsilon});
}

}  // namespace banter::model
