// banter_bench_attention: attention of the CPU backend over a paged cache, against this machine's measured ceilings.
//
//   banter_bench_attention [--threads N] [--heads H] [--kv-heads K] [--head-dim D] [--layers L] [--kv f16|bf16|f32|int8|int4]
//                          [--sequences N,N,...] [--rows N,N,...] [--length N,N,...] [--seconds S]
//
// One line for each number of sequences, rows of each and cached tokens: median time of all layers of a step, bytes of
// the cache read per second (each once) and arithmetic done per second, both as fractions of the ceilings. Passes of all
// lines are interleaved. The defaults are the shape of Qwen2.5 0.5B.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backend_cpu/cpu_backend.h"
#include "backend_cpu/memory.h"
#include "backend_cpu/roofline.h"
#include "backend_cpu/row_ops.h"
#include "base/thread_pool.h"
#include "bench_list.h"
#include "kv/page_pool.h"

namespace {

using namespace banter;
using tools::parse_list;
using Clock = std::chrono::steady_clock;

struct Options {
  int threads = 2, heads = 14, kv_heads = 2, head_dim = 64, layers = 24;
  ops::KvType type = ops::KvType::kF16;
  std::vector<int> sequences{1, 4}, rows{1, 8}, length{1024, 4096};
  double seconds = 10;
};

struct Line {
  int sequences = 0, rows = 0, length = 0;
  std::vector<double> seconds;
};

/** Pages of random numbers for `sequences` sequences, and queries. */
struct Cache {
  ops::KvPages pages;
  std::vector<int32_t> tables;
  int32_t pages_each = 0;
  std::vector<float> q, out;
};

bool parse_kv(const std::string& name, ops::KvType& type) {
  for (int i = 0; i < ops::kKvTypes; ++i) {
    if (name == ops::kv_type_name(static_cast<ops::KvType>(i))) return type = static_cast<ops::KvType>(i), true;
  }
  return false;
}

bool parse(int argc, char** argv, Options& o) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--threads")
      o.threads = std::atoi(value);
    else if (name == "--heads")
      o.heads = std::atoi(value);
    else if (name == "--kv-heads")
      o.kv_heads = std::atoi(value);
    else if (name == "--head-dim")
      o.head_dim = std::atoi(value);
    else if (name == "--layers")
      o.layers = std::atoi(value);
    else if (name == "--seconds")
      o.seconds = std::atof(value);
    else if (name == "--sequences")
      o.sequences = parse_list(value);
    else if (name == "--rows")
      o.rows = parse_list(value);
    else if (name == "--length")
      o.length = parse_list(value);
    else if (name != "--kv" || !parse_kv(value, o.type))
      return false;
  }
  return argc % 2 == 1 && o.threads > 0 && o.layers > 0 && o.kv_heads > 0 && o.heads > 0 && o.heads % o.kv_heads == 0 &&
         o.head_dim > 0 && o.head_dim % 16 == 0 && !o.sequences.empty() && !o.rows.empty() && !o.length.empty();
}

Cache make_cache(const Options& o) {
  const int longest = *std::max_element(o.length.begin(), o.length.end());
  const int most = *std::max_element(o.sequences.begin(), o.sequences.end());
  const int rows = *std::max_element(o.rows.begin(), o.rows.end());
  Cache cache;
  const kv::GroupSpec group{.type = o.type, .layers = o.layers, .kv_heads = o.kv_heads, .head_dim = o.head_dim};
  const std::vector<ops::KvGeometry> geometry = kv::plan_geometry({&group, 1});
  cache.pages.geometry = geometry[0];
  cache.pages.page_stride = kv::page_stride(geometry);
  cache.pages_each = (longest + geometry[0].page_tokens - 1) / geometry[0].page_tokens;
  cache.tables.resize(static_cast<size_t>(cache.pages_each) * static_cast<size_t>(most));
  std::iota(cache.tables.begin(), cache.tables.end(), 0);
  const size_t bytes = cache.pages.page_stride * cache.tables.size();
  cache.pages.slab = static_cast<std::byte*>(cpu::allocate_pages(bytes));  // kept until the program ends
  if (cache.pages.slab == nullptr) return cache;
  uint32_t state = 1;
  // Halves (values or scales) between 2^-4 and 2^-3: finite in every format.
  for (size_t i = 0; i < bytes; i += 2) {
    state = state * 1664525u + 1013904223u;
    cache.pages.slab[i] = static_cast<std::byte>(state >> 24);
    cache.pages.slab[i + 1] = static_cast<std::byte>(0x2C | (state >> 16 & 0x83));
  }
  const size_t floats = static_cast<size_t>(most) * static_cast<size_t>(rows) * static_cast<size_t>(o.heads) *
                        static_cast<size_t>(o.head_dim);
  cache.q.resize(floats);
  cache.out.resize(floats);
  for (size_t i = 0; i < floats; ++i) cache.q[i] = static_cast<float>(i * 2654435761u % 1000) / 500.0f - 1.0f;
  return cache;
}

double run_once(const Options& o, Cache& cache, cpu::RowOps& row_ops, const Line& line) {
  std::vector<ops::StepSequence> sequences;
  for (int i = 0; i < line.sequences; ++i) {
    ops::StepSequence s;
    s.first_row = i * line.rows;
    s.rows = line.rows;
    s.position = line.length - line.rows;
    s.page_tables[0] = {cache.tables.data() + static_cast<ptrdiff_t>(i) * cache.pages_each,
                        static_cast<size_t>(cache.pages_each)};
    sequences.push_back(s);
  }
  ops::Step step;
  step.sequences = sequences;
  row_ops.begin_step(step);
  ops::AttentionParams params{cache.q.data(), cache.out.data()};
  params.heads = o.heads;
  params.kv = &cache.pages;
  params.scale = 1.0f / std::sqrt(static_cast<float>(o.head_dim));
  const Clock::time_point start = Clock::now();
  for (params.layer = 0; params.layer < o.layers; ++params.layer) {
    if (auto done = row_ops.attention(params); !done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void print(const Options& o, const Cache& cache, const Line& line, const cpu::Roofline& roofline) {
  std::vector<double> sorted = line.seconds;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  const double keys = static_cast<double>(line.length) * line.sequences;
  const double bytes = keys * static_cast<double>(cache.pages.geometry.bytes_per_token()) / median;
  const double flops = 4.0 * keys * line.rows * o.heads * o.head_dim * o.layers / median;
  std::printf(
      "%3d sequences x %3d rows, %5d tokens: %9.3f ms (best %9.3f)  %5.1f GB/s (%3.0f %%)  %6.1f GFLOP/s (%3.0f %%)\n",
      line.sequences, line.rows, line.length, median * 1e3, sorted[0] * 1e3, bytes / 1e9,
      100 * bytes / roofline.read_bytes, flops / 1e9, 100 * flops / roofline.fp32_ops);
}

int run(const Options& o) {
  auto pool = ThreadPool::create({.threads = o.threads, .low_priority = false});
  if (!pool) return std::fprintf(stderr, "%s\n", pool.error().message.c_str()), 1;
  const cpu::Isa isa = cpu::best_isa();
  const cpu::Roofline roofline = cpu::measure_roofline(**pool, isa);
  std::printf("%s, %d threads: fp32 %.0f GFLOP/s, read %.1f GB/s\n", std::string(cpu::isa_name(isa)).c_str(), o.threads,
              roofline.fp32_ops / 1e9, roofline.read_bytes / 1e9);
  Cache cache = make_cache(o);
  if (cache.pages.slab == nullptr) return std::fprintf(stderr, "no memory for that cache\n"), 1;
  cpu::RowOps row_ops(**pool, isa);
  std::vector<Line> lines;
  for (const int sequences : o.sequences)
    for (const int rows : o.rows)
      for (const int length : o.length) lines.push_back({sequences, rows, std::max(length, rows), {}});
  const Clock::time_point begin = Clock::now();
  do {
    for (Line& line : lines) line.seconds.push_back(run_once(o, cache, row_ops, line));
  } while (lines[0].seconds.size() < 3 || std::chrono::duration<double>(Clock::now() - begin).count() < o.seconds);
  for (const Line& line : lines) print(o, cache, line, roofline);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(
        stderr,
        "usage: banter_bench_attention [--threads N] [--heads H] [--kv-heads K] [--head-dim D] [--layers L] "
        "[--kv f16|bf16|f32|int8|int4] [--sequences N,N,...] [--rows N,N,...] [--length N,N,...] [--seconds S]\n");
    return 2;
  }
  return run(options);
}
