// Ops alone. An op is queued many times in one step, so that the step's own cost does not count; matrices rotate through enough
// copies that none is found in the card's caches.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>

#include "bench_cuda/bench.h"
#include "model/weights.h"
#include "random_weights.h"

namespace banter::bench {
namespace {

using Clock = std::chrono::steady_clock;
using formats::TypeTraits;
using model::DeviceBuffer;

struct Sizes {
  int32_t dim = 4096, feed_forward = 14336, heads = 32, kv_heads = 8, head_dim = 128, vocabulary = 128256;
  size_t rotation_bytes = size_t{512} << 20;
  int repeats = 32;
  std::vector<int32_t> rows = {1, 2, 4, 8, 16, 64, 256, 512};
  std::vector<int32_t> contexts = {1024, 8192};
  std::vector<int32_t> sequences = {1, 8, 64};
};

Sizes smoke_sizes() {
  Sizes s;
  s.dim = 256, s.feed_forward = 512, s.heads = 4, s.kv_heads = 2, s.head_dim = 64, s.vocabulary = 512;
  s.rotation_bytes = 1;
  s.repeats = 2;
  s.rows = {1, 3, 20};
  s.contexts = {80};
  s.sequences = {2};
  return s;
}

/** A step of `count` sequences that each compute `rows` rows from `position` on. */
struct StepData {
  std::vector<int32_t> tokens, positions;
  std::vector<ops::StepSequence> sequences;
  ops::Step step() const { return {.tokens = tokens, .positions = positions, .sequences = sequences}; }
};
StepData step_of(int32_t count, int32_t rows, int32_t position, const Sequences* caches) {
  StepData data;
  for (int32_t s = 0; s < count; ++s) {
    ops::StepSequence sequence;
    sequence.first_row = static_cast<int32_t>(data.tokens.size());
    sequence.rows = rows;
    sequence.position = position;
    if (caches != nullptr) {
      const size_t groups = caches->pool->groups().size();
      for (size_t g = 0; g < groups; ++g) {
        sequence.page_tables[g] = caches->caches[static_cast<size_t>(s)].table(static_cast<int32_t>(g));
      }
    }
    data.sequences.push_back(sequence);
    for (int32_t i = 0; i < rows; ++i) {
      data.tokens.push_back((s * 31 + i) % 256);
      data.positions.push_back(position + i);
    }
  }
  return data;
}

class KernelBench {
 public:
  KernelBench(ops::Backend& backend, const CardLimits& limits, const Settings& settings)
      : backend_(backend), limits_(limits), settings_(settings), sizes_(settings.smoke ? smoke_sizes() : Sizes()) {}

  Result<Json> run() {
    if (Result<void> made = make_buffers(); !made) return made.error();
    std::printf("%-34s %10s %12s %9s %7s %9s %7s\n", "op", "us", "bytes", "GB/s", "of copy", "Gop/s", "of peak");
    // The most telling first: attention of the default pages, products, then the other pages.
    if (Result<void> done = rows_ops(); !done) return done.error();
    if (Result<void> done = attention(ops::KvType::kF16); !done) return done.error();
    for (const std::string& name : settings_.types) {
      if (left_out("products of " + name)) continue;
      const TypeTraits* const type = find_type(name);
      if (type == nullptr) return Error{BANTER_ERROR_INVALID_ARGUMENT, "There is no weight type " + name + "."};
      if (Result<void> done = matrices(*type); !done) return done.error();
    }
    for (const ops::KvType type : {ops::KvType::kI8, ops::KvType::kI4}) {
      if (left_out(std::string("attention of ") + ops::kv_type_name(type))) continue;
      if (Result<void> done = attention(type); !done) return done.error();
    }
    return std::move(lines_);
  }

 private:
  bool left_out(const std::string& what) {
    if (!settings_.time_is_up()) return false;
    std::printf("%s: left out, time is up\n", what.c_str());
    lines_.push_back({{"left_out", what}});
    return true;
  }
  Result<void> make_buffers() {
    most_rows_ = *std::max_element(sizes_.rows.begin(), sizes_.rows.end());
    most_rows_ = std::max(most_rows_, *std::max_element(sizes_.sequences.begin(), sizes_.sequences.end()));
    const size_t width = static_cast<size_t>(std::max({sizes_.dim, sizes_.feed_forward, 3 * sizes_.dim}));
    floats_ = width * static_cast<size_t>(most_rows_);
    std::vector<float> numbers(floats_);
    for (size_t i = 0; i < floats_; ++i) numbers[i] = static_cast<float>(i * 2654435761u % 1000) / 500.0f - 1.0f;
    for (DeviceBuffer* const buffer : {&x_, &y_, &z_}) {
      auto made = DeviceBuffer::create(backend_, floats_ * sizeof(float));
      if (!made) return made.error();
      *buffer = std::move(*made);
      if (Result<void> sent = backend_.copy_from_host(buffer->data(), numbers.data(), floats_ * sizeof(float)); !sent) {
        return sent;
      }
    }
    auto logits = DeviceBuffer::create(backend_, sizeof(float) * static_cast<size_t>(sizes_.vocabulary) * 8);
    if (!logits) return logits.error();
    logits_ = std::move(*logits);
    return {};
  }
  float* x() { return static_cast<float*>(x_.data()); }
  float* y() { return static_cast<float*>(y_.data()); }
  float* z() { return static_cast<float*>(z_.data()); }

  /** Seconds of one op, the median of steps of sizes_.repeats. */
  Result<double> time(const ops::Step& step, const std::function<void(int)>& op) {
    std::vector<double> seconds;
    double spent = 0;
    for (int pass = 0; pass < 3 || spent < settings_.seconds; ++pass) {
      const Clock::time_point start = Clock::now();
      backend_.begin_step(step);
      for (int i = 0; i < sizes_.repeats; ++i) op(i);
      if (Result<void> done = backend_.end_step(); !done) return done.error();
      const double took = std::chrono::duration<double>(Clock::now() - start).count();
      if (pass > 0) seconds.push_back(took / sizes_.repeats);  // the first one makes room
      spent += took;
      if (settings_.smoke && pass == 1) break;
    }
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
    return seconds[seconds.size() / 2];
  }

  void tell(const std::string& name, double seconds, double bytes, double operations, double peak) {
    const double bandwidth = bytes / seconds, rate = operations / seconds;
    std::printf("%-34s %10.2f %12.0f %9.1f %6.1f%% %9.1f %6.1f%%\n", name.c_str(), seconds * 1e6, bytes,
                bandwidth / 1e9, 100 * bandwidth / limits_.copy_bytes, rate / 1e9, peak > 0 ? 100 * rate / peak : 0.0);
    std::fflush(stdout);
    lines_.push_back({{"op", name},
                      {"microseconds", seconds * 1e6},
                      {"bytes", bytes},
                      {"of_copy_bandwidth", bandwidth / limits_.copy_bytes},
                      {"operations", operations},
                      {"of_matrix_rate", peak > 0 ? rate / peak : 0.0}});
  }

  Result<void> matrices(const TypeTraits& type) {
    const int32_t dim = sizes_.dim, ff = sizes_.feed_forward;
    const std::vector<std::byte> data = random_matrix(type, ff, dim);
    std::vector<std::unique_ptr<ops::Weight>> copies;
    size_t bytes = 0;
    while (copies.size() < 2 || bytes < sizes_.rotation_bytes) {
      auto weight = backend_.upload(type.type, ff, dim, data, ops::WeightUse::kLinear);
      if (!weight) return weight.error();
      bytes += (*weight)->bytes;
      copies.push_back(std::move(*weight));
    }
    const double peak = type.block_elements == 1 ? limits_.half_ops : limits_.int8_ops;
    const std::string name(type.name);
    for (const int32_t rows : sizes_.rows) {
      const StepData step = step_of(rows, 1, 0, nullptr);
      const double matrix = static_cast<double>(copies[0]->bytes), io = 4.0 * rows * (dim + ff);
      auto seconds = time(step.step(), [&](int i) {
        const ops::LinearTarget target{copies[static_cast<size_t>(i) % copies.size()].get(), nullptr, y()};
        backend_.linear({.x = x(), .rows = rows, .targets = {&target, 1}});
      });
      if (!seconds) return seconds.error();
      tell("linear " + name + " rows " + std::to_string(rows), *seconds, matrix + io, 2.0 * rows * dim * ff, peak);
      if (rows != sizes_.rows.front() && rows != sizes_.rows.back()) continue;
      seconds = time(step.step(), [&](int i) {
        const size_t at = 2 * static_cast<size_t>(i) % (copies.size() - 1);
        backend_.gated({.gate = copies[at].get(), .up = copies[at + 1].get(), .x = x(), .out = y(), .rows = rows});
      });
      if (!seconds) return seconds.error();
      tell("gated " + name + " rows " + std::to_string(rows), *seconds, 2 * matrix + io, 4.0 * rows * dim * ff, peak);
    }
    return head(type);
  }

  /** The output matrix, and a look-up of rows in it. */
  Result<void> head(const TypeTraits& type) {
    const int32_t dim = sizes_.dim, vocabulary = sizes_.vocabulary;
    auto weight =
        backend_.upload(type.type, vocabulary, dim, random_matrix(type, vocabulary, dim), ops::WeightUse::kBoth);
    if (!weight) return weight.error();
    const std::string name(type.name);
    for (const int32_t rows : {1, 8}) {
      const StepData step = step_of(rows, 1, 0, nullptr);
      std::vector<int32_t> indices(static_cast<size_t>(rows));
      std::iota(indices.begin(), indices.end(), 0);
      // One a step: what it reads stands in the step's data.
      const int repeats = std::exchange(sizes_.repeats, 1);
      auto seconds = time(step.step(), [&](int) {
        backend_.logits(
            {.head = weight->get(), .x = x(), .row_indices = indices, .logits = static_cast<float*>(logits_.data())});
      });
      sizes_.repeats = repeats;
      if (!seconds) return seconds.error();
      tell("logits " + name + " rows " + std::to_string(rows), *seconds,
           static_cast<double>((*weight)->bytes) + 4.0 * rows * (dim + vocabulary), 2.0 * rows * dim * vocabulary,
           type.block_elements == 1 ? limits_.half_ops : limits_.int8_ops);
    }
    const int32_t rows = sizes_.rows.back();
    const StepData step = step_of(rows, 1, 0, nullptr);
    auto seconds = time(step.step(), [&](int) { backend_.embed({.table = weight->get(), .out = y()}); });
    if (!seconds) return seconds.error();
    const double row_bytes = static_cast<double>((*weight)->bytes) / vocabulary;
    tell("embed " + name + " rows " + std::to_string(rows), *seconds, rows * (row_bytes + 4.0 * dim), 0, 0);
    return {};
  }

  Result<void> rows_ops() {
    for (const int32_t rows : {sizes_.rows.front(), sizes_.rows.back()}) {
      const StepData step = step_of(rows, 1, 0, nullptr);
      auto seconds = time(step.step(), [&](int) {
        backend_.norm({.residual = x(), .delta = z(), .norm = y(), .out = y(), .rows = rows, .dim = sizes_.dim});
      });
      if (!seconds) return seconds.error();
      tell("norm rows " + std::to_string(rows), *seconds, 4.0 * 4 * rows * sizes_.dim, 0, 0);
    }
    return {};
  }

  Result<void> attention(ops::KvType type) {
    kv::GroupSpec group;
    group.type = type;
    group.layers = 1;
    group.kv_heads = sizes_.kv_heads;
    group.head_dim = sizes_.head_dim;
    std::vector<kv::GroupSpec> groups = {group};
    if (ops::kv_is_quantised(type)) {
      groups[0].companion = 1;
      group.type = ops::KvType::kF16;
      group.window = ops::kKvRecentWindow;
      groups.push_back(group);
    }
    for (const int32_t context : sizes_.contexts) {
      for (const int32_t count : sizes_.sequences) {
        if (Result<void> done = decode_and_prefill(groups, count, context); !done) return done;
      }
    }
    return {};
  }

  Result<void> decode_and_prefill(const std::vector<kv::GroupSpec>& groups, int32_t count, int32_t context) {
    const int32_t chunk = std::min(context, sizes_.rows.back());
    auto made = make_sequences(backend_, groups, count, context - chunk, chunk);
    if (!made) return made.error();
    const ops::KvPages& pages = made->pool->pages(0);
    const ops::KvPages* const recent = made->pool->companion_pages(0);
    const double token = static_cast<double>(pages.geometry.bytes_per_token());
    const double products = 4.0 * sizes_.heads * sizes_.head_dim;
    const std::string name =
        std::string(ops::kv_type_name(pages.geometry.type)) + " context " + std::to_string(context);
    const auto measure = [&](const std::string& label, const StepData& step, double bytes,
                             double operations) -> Result<void> {
      auto seconds = time(step.step(), [&](int) {
        backend_.attention(
            {.q = x(), .out = y(), .heads = sizes_.heads, .kv = &pages, .scale = 0.1f, .recent = recent});
      });
      if (!seconds) return seconds.error();
      tell(label, *seconds, bytes, operations, limits_.half_ops);
      seconds = time(step.step(), [&](int) {
        backend_.rope_kv({.q = x(), .k = y(), .v = z(), .heads = sizes_.heads, .kv = &pages, .recent = recent});
      });
      if (!seconds) return seconds.error();
      const double rows = static_cast<double>(step.tokens.size());
      tell("rope_kv " + label, *seconds,
           rows * (token + 4.0 * sizes_.head_dim * (2 * sizes_.heads + 2 * sizes_.kv_heads)), 0, 0);
      return {};
    };
    const StepData decode = step_of(count, 1, context - 1, &*made);
    Result<void> done =
        measure("decode " + name + " x " + std::to_string(count), decode,
                count * (context * token + 8.0 * sizes_.heads * sizes_.head_dim), products * count * context);
    if (!done || count > 1) return done;
    const StepData prefill = step_of(1, chunk, context - chunk, &*made);
    return measure("prefill " + name + " rows " + std::to_string(chunk), prefill,
                   context * token + 8.0 * chunk * sizes_.heads * sizes_.head_dim,
                   products * chunk * (context - chunk / 2.0));
  }

  ops::Backend& backend_;
  const CardLimits& limits_;
  const Settings& settings_;
  Sizes sizes_;
  int32_t most_rows_ = 0;
  size_t floats_ = 0;
  DeviceBuffer x_, y_, z_, logits_;
  Json lines_ = Json::array();

  static std::vector<std::byte> random_matrix(const TypeTraits& type, int64_t rows, int64_t cols) {
    return tools::random_matrix(type, rows, cols);
  }
};

}  // namespace

const TypeTraits* find_type(const std::string& name) {
  for (const TypeTraits& type : formats::all_types()) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

Result<Sequences> make_sequences(ops::Backend& backend, std::vector<kv::GroupSpec> groups, int32_t count,
                                 int32_t length, int32_t room) {
  Sequences made;
  size_t pages = 0, stride = 0;
  for (const ops::KvGeometry& geometry : kv::plan_geometry(groups)) {
    pages += static_cast<size_t>(count) * static_cast<size_t>((length + room) / geometry.page_tokens + 2);
    stride = std::max(stride, geometry.page_bytes() + 64);
  }
  auto pool = kv::PagePool::create(backend, std::move(groups), pages * stride);
  if (!pool) return pool.error();
  made.pool = std::move(*pool);
  const std::vector<std::byte> zeros(made.pool->page_stride());
  for (kv::PageId page = 0; page < made.pool->total_pages(); ++page) {
    if (Result<void> written = made.pool->write_page(page, zeros.data()); !written) return written.error();
  }
  for (int32_t i = 0; i < count; ++i) {
    kv::SequenceCache& cache = made.caches.emplace_back(*made.pool, length + room + 1);
    if (length > 0) {
      if (Result<void> reserved = cache.reserve(length); !reserved) return reserved.error();
      cache.advance(length);
    }
    if (Result<void> reserved = cache.reserve(room); !reserved) return reserved.error();
  }
  return made;
}

Result<Json> bench_kernels(ops::Backend& backend, const CardLimits& limits, const Settings& settings) {
  return KernelBench(backend, limits, settings).run();
}

}  // namespace banter::bench
