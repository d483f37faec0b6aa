// banter_bench_ops: matrix products of the CPU backend against this machine's measured ceilings.
//
//   banter_bench_ops [--threads N] [--isa NAME] [--type NAME]... [--tokens N,N,...] [--cols K] [--seconds S]
//
// One line for each type and number of tokens: median time of a pass, GB/s of weights read, GOP/s, and both as fractions
// of the ceilings. Passes of all lines are interleaved, so that a slow phase of the machine touches them alike.
// With few tokens the matrix is larger than the caches; from 16 tokens on it is a layer's size.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend_cpu/cpu_backend.h"
#include "backend_cpu/roofline.h"
#include "base/thread_pool.h"
#include "bench_list.h"
#include "formats/tensor_type.h"
#include "random_weights.h"

namespace {

using banter::formats::TensorType;
using banter::formats::TypeTraits;
using banter::tools::parse_list;
using Clock = std::chrono::steady_clock;

struct Options {
  int threads = 2;
  banter::cpu::Isa isa = banter::cpu::best_isa();
  std::vector<std::string> types;
  std::vector<int> tokens{1, 4, 16, 512};
  long cols = 2048;
  double seconds = 20;
};

struct Line {
  const TypeTraits* type = nullptr;
  int tokens = 0;
  std::unique_ptr<banter::ops::Weight> weight;
  std::vector<double> seconds;
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (i + 1 >= argc) return false;
    const char* value = argv[++i];
    if (name == "--threads") {
      options.threads = std::atoi(value);
    } else if (name == "--cols") {
      options.cols = std::atol(value);
    } else if (name == "--seconds") {
      options.seconds = std::atof(value);
    } else if (name == "--tokens") {
      options.tokens = parse_list(value);
    } else if (name == "--type") {
      options.types.emplace_back(value);
    } else if (name == "--isa") {
      bool found = false;
      for (const banter::cpu::Isa isa : banter::cpu::available_isas()) {
        if (banter::cpu::isa_name(isa) == value) options.isa = isa, found = true;
      }
      if (!found) return false;
    } else {
      return false;
    }
  }
  return options.threads > 0 && options.cols > 0 && options.cols % 256 == 0 && !options.tokens.empty();
}

double run_once(banter::ops::Backend& backend, const Line& line, const float* x, float* y) {
  const banter::ops::LinearTarget target{line.weight.get(), nullptr, y};
  const Clock::time_point start = Clock::now();
  backend.begin_step({});
  backend.linear({.x = x, .rows = line.tokens, .targets = {&target, 1}});
  if (auto end = backend.end_step(); !end) std::fprintf(stderr, "%s\n", end.error().message.c_str());
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void print(const Line& line, const Options& options, const banter::cpu::Roofline& roofline) {
  std::vector<double> sorted = line.seconds;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  const double bytes = static_cast<double>(line.weight->bytes) / median;
  const double ops = 2.0 * static_cast<double>(line.weight->rows * line.weight->cols) * line.tokens / median;
  const bool is_float = line.type->block_elements == 1;
  std::printf("%-7s %5d tokens %9.3f ms  %6.1f GB/s (%3.0f %%)  %7.1f GOP/s (%3.0f %%)  %4.2f bytes/weight\n",
              std::string(line.type->name).c_str(), line.tokens, median * 1e3, bytes / 1e9,
              100 * bytes / roofline.read_bytes, ops / 1e9,
              100 * ops / (is_float ? roofline.fp32_ops : roofline.int8_ops),
              static_cast<double>(line.weight->bytes) / static_cast<double>(line.weight->rows * options.cols));
}

int run(const Options& options) {
  auto pool = banter::ThreadPool::create({.threads = options.threads, .low_priority = false});
  if (!pool) return std::fprintf(stderr, "%s\n", pool.error().message.c_str()), 1;
  auto backend = banter::cpu::create_backend(**pool, options.isa);
  if (!backend) return std::fprintf(stderr, "%s\n", backend.error().message.c_str()), 1;
  banter::cpu::Roofline roofline = banter::cpu::measure_roofline(**pool, options.isa);
  std::printf("%s, %d threads: int8 %.0f GOP/s, fp32 %.0f GFLOP/s, read %.1f GB/s\n", (*backend)->name().c_str(),
              options.threads, roofline.int8_ops / 1e9, roofline.fp32_ops / 1e9, roofline.read_bytes / 1e9);
  std::vector<Line> lines;
  size_t most = 1;
  for (const TypeTraits& type : banter::formats::all_types()) {
    if (!options.types.empty() &&
        std::find(options.types.begin(), options.types.end(), type.name) == options.types.end()) {
      continue;
    }
    for (const int tokens : options.tokens) {
      const double row_bytes = static_cast<double>(options.cols) / type.block_elements * type.block_bytes;
      const long rows = tokens < 16 ? static_cast<long>(100e6 / row_bytes) / 32 * 32 : 4096;
      Line line;
      line.type = &type;
      line.tokens = tokens;
      auto weight =
          (*backend)->upload(type.type, rows, options.cols, banter::tools::random_matrix(type, rows, options.cols),
                             banter::ops::WeightUse::kLinear);
      if (!weight) return std::fprintf(stderr, "%s\n", weight.error().message.c_str()), 1;
      line.weight = std::move(*weight);
      most = std::max(most, static_cast<size_t>(rows) * static_cast<size_t>(tokens));
      lines.push_back(std::move(line));
    }
  }
  if (lines.empty()) return std::fprintf(stderr, "no such type\n"), 1;
  std::vector<float> x(static_cast<size_t>(options.cols) * 4096);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761u % 1000) / 500.0f - 1.0f;
  std::vector<float> y(most);
  const Clock::time_point begin = Clock::now();
  size_t passes = 0;
  do {
    for (Line& line : lines) line.seconds.push_back(run_once(**backend, line, x.data(), y.data()));
  } while (++passes < 3 || std::chrono::duration<double>(Clock::now() - begin).count() < options.seconds);
  for (const Line& line : lines) print(line, options, roofline);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: banter_bench_ops [--threads N] [--isa scalar|avx2|avx512|avx512-vnni] [--type NAME]... "
                 "[--tokens N,N,...] [--cols K (a multiple of 256)] [--seconds S]\n");
    return 2;
  }
  return run(options);
}
