// Whole models of random weights, and frames beside them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "bench_cuda/bench.h"
#include "model/decoder.h"
#include "model/hyperparameters.h"
#include "model/weights.h"
#include "random_weights.h"

namespace banter::bench {
namespace {

using Clock = std::chrono::steady_clock;
using formats::TensorType;
using formats::TypeTraits;
using model::DeviceBuffer;

struct Shape {
  const char* name;
  int32_t vocabulary, dim, layers, heads, kv_heads, head_dim, feed_forward;
  bool tied;
};
constexpr Shape kShapes[] = {
    {"0.5B", 151936, 896, 24, 14, 2, 64, 4864, true},    // as Qwen2.5 0.5B
    {"1B", 128256, 2048, 16, 32, 8, 64, 8192, true},     // as Llama 3.2 1B
    {"8B", 128256, 4096, 32, 32, 8, 128, 14336, false},  // as Llama 3.1 8B
    {"smoke", 512, 256, 2, 4, 2, 64, 512, true},
};
constexpr int32_t kContext = 1024, kPrompt = 512;

model::Hyperparameters hyperparameters(const Shape& shape) {
  model::Hyperparameters hp;
  hp.architecture = "llama";
  hp.vocabulary = shape.vocabulary;
  hp.embedding = shape.dim;
  hp.layers = shape.layers;
  hp.heads = shape.heads;
  hp.kv_heads = shape.kv_heads;
  hp.head_dim = shape.head_dim;
  hp.feed_forward = shape.feed_forward;
  hp.trained_context = hp.context = kContext;
  hp.attention_scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  ops::RopeSpec rope;
  rope.max_positions = kContext;
  for (int32_t k = 0; k < shape.head_dim / 2; ++k) {
    rope.inverse_frequency.push_back(std::pow(500000.0, -2.0 * k / shape.head_dim));
  }
  hp.ropes.push_back(rope);
  hp.layer_kinds.resize(static_cast<size_t>(shape.layers));
  for (int32_t i = 0; i < shape.layers; ++i) hp.layer_kinds[static_cast<size_t>(i)].kv_layer = i;
  return hp;
}

/** What files hold for matrices whose rows do not divide into the type's blocks. */
const TypeTraits& type_for(const TypeTraits& wanted, int32_t cols) {
  if (cols % wanted.block_elements == 0) return wanted;
  return formats::type_traits(TensorType::kQ5_0);
}

struct RandomModel {
  model::Hyperparameters hp;
  model::DecoderWeights weights;
  std::unique_ptr<model::Decoder> decoder;
};

class Uploader {
 public:
  Uploader(ops::Backend& backend, const TypeTraits& type) : backend_(backend), type_(type) {}
  Result<std::unique_ptr<ops::Weight>> operator()(int32_t rows, int32_t cols, ops::WeightUse use) {
    const TypeTraits& type = type_for(type_, cols);
    if (rows != rows_ || cols != cols_) data_ = tools::random_matrix(type, rows, cols);
    rows_ = rows, cols_ = cols;
    return backend_.upload(type.type, rows, cols, data_, use);
  }

 private:
  ops::Backend& backend_;
  const TypeTraits& type_;
  std::vector<std::byte> data_;
  int32_t rows_ = 0, cols_ = 0;
};

Result<void> fill_layers(RandomModel& m, Uploader& upload) {
  const model::Hyperparameters& hp = m.hp;
  const auto q = static_cast<int32_t>(hp.q_dim()), k = static_cast<int32_t>(hp.kv_dim());
  const int32_t d = hp.embedding, f = hp.feed_forward;
  struct Matrix {
    std::unique_ptr<ops::Weight> model::LayerWeights::*target;
    int32_t rows, cols;
  };
  const Matrix matrices[] = {{&model::LayerWeights::k, k, d},    {&model::LayerWeights::v, k, d},
                             {&model::LayerWeights::q, q, d},    {&model::LayerWeights::output, d, q},
                             {&model::LayerWeights::gate, f, d}, {&model::LayerWeights::up, f, d},
                             {&model::LayerWeights::down, d, f}};
  m.weights.layers.resize(static_cast<size_t>(hp.layers));
  for (const Matrix& matrix : matrices) {
    for (model::LayerWeights& layer : m.weights.layers) {
      auto weight = upload(matrix.rows, matrix.cols, ops::WeightUse::kLinear);
      if (!weight) return weight.error();
      m.weights.bytes += (*weight)->bytes;
      layer.*matrix.target = std::move(*weight);
    }
  }
  return {};
}

Result<std::unique_ptr<RandomModel>> make_model(ops::Backend& backend, const Shape& shape, const TypeTraits& type,
                                                int32_t max_rows, int32_t max_logit_rows) {
  auto m = std::make_unique<RandomModel>();
  m->hp = hyperparameters(shape);
  Uploader upload(backend, type);
  if (Result<void> filled = fill_layers(*m, upload); !filled) return filled.error();
  auto embedding = upload(shape.vocabulary, shape.dim, shape.tied ? ops::WeightUse::kBoth : ops::WeightUse::kEmbedding);
  if (!embedding) return embedding.error();
  m->weights.embedding = std::move(*embedding);
  if (!shape.tied) {
    auto head = upload(shape.vocabulary, shape.dim, ops::WeightUse::kLinear);
    if (!head) return head.error();
    m->weights.head = std::move(*head);
  }
  m->weights.bytes += m->weights.output_head().bytes;  // a look-up reads next to nothing
  const std::vector<float> ones(static_cast<size_t>(shape.dim), 1.0f);
  auto vectors = DeviceBuffer::create(backend, ones.size() * sizeof(float));
  if (!vectors) return vectors.error();
  m->weights.vectors = std::move(*vectors);
  if (auto sent = backend.copy_from_host(m->weights.vectors.data(), ones.data(), ones.size() * sizeof(float)); !sent) {
    return sent.error();
  }
  const auto* const norm = static_cast<const float*>(m->weights.vectors.data());
  m->weights.output_norm = norm;
  for (model::LayerWeights& layer : m->weights.layers) layer.attention_norm = layer.feed_forward_norm = norm;
  auto decoder = model::Decoder::create(m->hp, m->weights, backend, ops::KvType::kF16, max_rows, max_logit_rows);
  if (!decoder) return decoder.error();
  m->decoder = std::move(*decoder);
  return m;
}

/** Characters that each have read a prompt and now say a token a step. */
class Talk {
 public:
  Talk(RandomModel& model, Sequences& sequences) : model_(model), sequences_(sequences) {
    batch_.chunks.resize(sequences.caches.size());
    tokens_.assign(static_cast<size_t>(kContext), 1);
  }
  /** A step in which each of the first `count` computes `tokens`, which are then forgotten. */
  Result<void> step(size_t count, size_t tokens, int32_t keep) {
    batch_.chunks.resize(count);
    for (size_t i = 0; i < count; ++i) {
      kv::SequenceCache& cache = sequences_.caches[i];
      cache.truncate(keep);
      if (Result<void> room = cache.reserve(static_cast<int32_t>(tokens)); !room) return room;
      batch_.chunks[i] = {&cache, std::span<const int32_t>(tokens_).first(tokens), model::LogitRows::kLast};
    }
    // As the engine's steps: the best logits come to the host, not all of them.
    auto logits = model_.decoder->forward_best(*sequences_.pool, batch_);
    return logits ? Result<void>() : Result<void>(logits.error());
  }

 private:
  RandomModel& model_;
  Sequences& sequences_;
  model::Batch batch_;
  std::vector<int32_t> tokens_;
};

template <class F>
Result<double> median_seconds(const Settings& settings, F&& step) {
  std::vector<double> seconds;
  double spent = 0;
  const double enough = 4 * settings.seconds;
  for (int pass = 0; pass < 4 || spent < enough; ++pass) {
    const Clock::time_point start = Clock::now();
    if (Result<void> done = step(); !done) return done.error();
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    if (pass > 1 || settings.smoke) seconds.push_back(took);  // graphs are captured by then
    spent += took;
    if (settings.smoke) break;
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

Result<void> measure(ops::Backend& backend, RandomModel& m, const CardLimits& limits, const Settings& settings,
                     const std::string& label, Json& lines) {
  const int32_t most = *std::max_element(settings.npcs.begin(), settings.npcs.end());
  const int32_t prompt = settings.smoke ? 20 : kPrompt;
  for (int32_t count = most; count >= 1; count = count == 1 ? 0 : std::max(1, count / 2)) {
    // As many as fit: half of them where the pool of all finds no room.
    auto sequences = make_sequences(backend, model::kv_groups(m.hp, backend.default_kv_type()), count, prompt, 32);
    if (!sequences && banter_result_class(sequences.error().code) == BANTER_ERROR_OUT_OF_MEMORY && count > 1) {
      std::printf("%-12s %d characters find no room\n", label.c_str(), count);
      continue;
    }
    if (!sequences) return sequences.error();
    Talk talk(m, *sequences);
    Json entry = {{"model", label}, {"weight_bytes", m.weights.bytes}, {"decode", Json::array()}};
    for (const int npcs : settings.npcs) {
      if (npcs > count) continue;
      auto seconds = median_seconds(settings, [&] { return talk.step(static_cast<size_t>(npcs), 1, prompt); });
      if (!seconds) return seconds.error();
      const double kv = static_cast<double>(sequences->pool->pages(0).geometry.bytes_per_token()) * npcs * prompt;
      const double share = (static_cast<double>(m.weights.bytes) + kv) / *seconds / limits.copy_bytes;
      std::printf("%-12s decode  x %2d  %9.1f tokens/s  %8.1f each  %5.1f%% of copy bandwidth\n", label.c_str(), npcs,
                  npcs / *seconds, 1 / *seconds, 100 * share);
      entry["decode"].push_back({{"npcs", npcs}, {"tokens_per_second", npcs / *seconds}, {"of_copy_bandwidth", share}});
    }
    auto seconds = median_seconds(settings, [&] { return talk.step(1, static_cast<size_t>(prompt), 0); });
    if (!seconds) return seconds.error();
    double elements = 0;
    for (const model::LayerWeights& layer : m.weights.layers) {
      for (const auto* w : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) {
        elements += static_cast<double>((*w)->rows * (*w)->cols);
      }
    }
    const bool halves = formats::type_traits(m.weights.layers[0].q->type).block_elements == 1;
    const double share = 2 * elements * prompt / *seconds / (halves ? limits.half_ops : limits.int8_ops);
    std::printf("%-12s prefill %4d  %9.1f tokens/s  %5.1f%% of matrix rate\n", label.c_str(), prompt, prompt / *seconds,
                100 * share);
    std::fflush(stdout);
    entry["prefill"] = {{"tokens", prompt}, {"tokens_per_second", prompt / *seconds}, {"of_matrix_rate", share}};
    lines.push_back(std::move(entry));
    return {};
  }
  return {};
}

const Shape* find_shape(const std::string& name) {
  const auto* const found =
      std::find_if(std::begin(kShapes), std::end(kShapes), [&](const Shape& s) { return name == s.name; });
  return found == std::end(kShapes) ? nullptr : found;
}

/** Frames at 60 Hz for some seconds: milliseconds that the card needed for each. */
Result<std::vector<double>> play(RenderLoad& render, double seconds) {
  std::vector<double> frames;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < static_cast<int>(seconds * 60); ++i) {
    std::this_thread::sleep_until(start +
                                  std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(i / 60.0)));
    Result<double> took = render.frame();
    if (!took) return took.error();
    frames.push_back(*took);
  }
  std::sort(frames.begin(), frames.end());
  return frames;
}

Json summary(const char* label, const std::vector<double>& frames) {
  const auto at = [&](double share) {
    return frames[static_cast<size_t>(share * static_cast<double>(frames.size() - 1))];
  };
  std::printf("frames %-9s median %6.2f ms   99%% %6.2f ms   longest %6.2f ms\n", label, at(0.5), at(0.99), at(1));
  return {{"median_ms", at(0.5)}, {"p99_ms", at(0.99)}, {"longest_ms", at(1)}};
}

}  // namespace

Result<Json> bench_models(ops::Backend& backend, const CardLimits& limits, const Settings& settings) {
  Json lines = Json::array();
  for (const std::string& name : settings.shapes) {
    const Shape* const shape = find_shape(name);
    if (shape == nullptr) return Error{BANTER_ERROR_INVALID_ARGUMENT, "There is no shape " + name + "."};
    for (const std::string& type_name : settings.types) {
      const TypeTraits* const type = find_type(type_name);
      if (type == nullptr) return Error{BANTER_ERROR_INVALID_ARGUMENT, "There is no weight type " + type_name + "."};
      const std::string label = name + " " + type_name;
      if (settings.time_is_up()) {
        std::printf("%-12s left out, time is up\n", label.c_str());
        lines.push_back({{"model", label}, {"left_out", true}});
        continue;
      }
      auto m = make_model(backend, *shape, *type, settings.smoke ? 20 : kPrompt, 64);
      if (!m && banter_result_class(m.error().code) == BANTER_ERROR_OUT_OF_MEMORY) {
        std::printf("%-12s does not fit: %s\n", label.c_str(), m.error().message.c_str());
        lines.push_back({{"model", label}, {"does_not_fit", m.error().message}});
        continue;
      }
      if (!m) return m.error();
      if (Result<void> done = measure(backend, **m, limits, settings, label, lines); !done) return done.error();
    }
  }
  return lines;
}

Result<Json> bench_frames(ops::Backend& backend, int32_t device, const Settings& settings) {
  constexpr int32_t kCharacters = 8;
  RenderLoad render;
  if (Result<void> made = render.create(device, 5.0); !made) return made.error();
  const double seconds = settings.smoke ? 0.05 : 4;
  auto alone = play(render, seconds);
  if (!alone) return alone.error();
  const Shape* const shape = find_shape(settings.smoke ? "smoke" : "1B");
  auto m = make_model(backend, *shape, *find_type("Q4_0"), settings.smoke ? 20 : kPrompt, 64);
  if (!m) return m.error();
  auto sequences = make_sequences(backend, model::kv_groups((*m)->hp, backend.default_kv_type()), kCharacters, 64, 32);
  if (!sequences) return sequences.error();
  Talk talk(**m, *sequences);
  std::atomic<bool> stop{false};
  Result<void> talked;
  int64_t steps = 0;
  std::thread engine([&] {
    while (!stop.load(std::memory_order_relaxed) && talked) {
      talked = talk.step(kCharacters, 1, 64);
      ++steps;
    }
  });
  auto beside = play(render, seconds);
  stop.store(true);
  engine.join();
  if (!talked) return talked.error();
  if (!beside) return beside.error();
  Json result;
  result["alone"] = summary("alone", *alone);
  result["beside"] = summary("beside", *beside);
  result["tokens_per_second"] = static_cast<double>(steps * kCharacters) / seconds;
  std::printf("frames beside %d characters that say %.0f tokens/s together\n", kCharacters,
              static_cast<double>(steps * kCharacters) / seconds);
  return result;
}

}  // namespace banter::bench
