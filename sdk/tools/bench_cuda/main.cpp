// banter_bench_cuda: the CUDA backend against the limits of the card that it runs on, measured in the same run.
//
//   banter_bench_cuda [--device N] [--types Q4_0,Q4_K,…] [--shapes 8B,1B,0.5B] [--npcs 1,8,64] [--seconds S]
//                     [--limit S] [--no-kernels] [--no-models] [--no-frames] [--smoke]
//
// A table, then one JSON object as the last line. --smoke: tiny sizes, to see that all of it runs; its figures mean nothing.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <string>

#include "backend_cuda/cuda_backend.h"
#include "base/thread_pool.h"
#include "bench_cuda/bench.h"

namespace {

using namespace banter::bench;
using banter::Result;

int fail(const banter::Error& error) {
  std::fprintf(stderr, "banter_bench_cuda: %s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures the CUDA backend against the limits of the card.", "banter_bench_cuda"};
  Settings settings;
  int device = -1;
  bool no_kernels = false, no_models = false, no_frames = false;
  double limit = 1e6;
  app.add_option("--device", device, "CUDA's number of the card; -1: the best one");
  app.add_option("--types", settings.types, "weight types")->delimiter(',');
  app.add_option("--shapes", settings.shapes, "model shapes")->delimiter(',');
  app.add_option("--npcs", settings.npcs, "characters that talk at once")->delimiter(',')->check(CLI::Range(1, 64));
  app.add_option("--seconds", settings.seconds, "that a line takes at least")->check(CLI::Range(0.001, 60.0));
  app.add_option("--limit", limit, "seconds after which no further type or model begins")->check(CLI::Range(1.0, 1e6));
  app.add_flag("--no-kernels", no_kernels);
  app.add_flag("--no-models", no_models);
  app.add_flag("--no-frames", no_frames);
  app.add_flag("--smoke", settings.smoke, "tiny sizes");
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // whoever ends it early has the lines so far
  settings.stop_at = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                            std::chrono::duration<double>(limit));
  if (settings.smoke) {
    settings.shapes = {"smoke"};
    settings.npcs = {1, 3};
    settings.seconds = 0.001;
  }

  const Result<banter::cuda::DeviceChoice> choice = banter::cuda::choose_device(device);
  if (!choice) return fail(choice.error());
  const Result<CardLimits> limits =
      measure_card(choice->device, settings.smoke ? size_t{1} << 20 : size_t{256} << 20, settings.seconds);
  if (!limits) return fail(limits.error());
  std::printf(
      "%s, compute capability %d.%d, %d multiprocessors, %.1f GiB free: copy %.0f GB/s, int8 %.0f Top/s, f16 %.0f "
      "Top/s\n",
      choice->name.c_str(), choice->compute_capability / 10, choice->compute_capability % 10, choice->multiprocessors,
      static_cast<double>(limits->free_bytes) / (1 << 30), limits->copy_bytes / 1e9, limits->int8_ops / 1e12,
      limits->half_ops / 1e12);
  Json result = {{"card", choice->name},
                 {"compute_capability", choice->compute_capability},
                 {"smoke", settings.smoke},
                 {"copy_bytes_per_second", limits->copy_bytes},
                 {"int8_operations_per_second", limits->int8_ops},
                 {"f16_operations_per_second", limits->half_ops}};

  auto threads = banter::ThreadPool::create({.threads = banter::default_thread_count(), .low_priority = false});
  if (!threads) return fail(threads.error());
  auto backend = banter::cuda::create_backend(**threads, choice->device);
  if (!backend) return fail(backend.error());
  const auto add = [&](const char* name, bool skipped, auto&& measure) -> int {
    if (skipped) return 0;
    Result<Json> part = measure();
    if (!part) return fail(part.error());
    result[name] = std::move(*part);
    return 0;
  };
  int code = add("kernels", no_kernels, [&] { return bench_kernels(**backend, *limits, settings); });
  if (code == 0) code = add("models", no_models, [&] { return bench_models(**backend, *limits, settings); });
  if (code == 0) code = add("frames", no_frames, [&] { return bench_frames(**backend, choice->device, settings); });
  std::printf("%s\n", result.dump().c_str());
  return code;
}
