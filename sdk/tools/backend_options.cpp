#include "backend_options.h"

#include <iterator>

namespace banter::tools {
namespace {

constexpr const char* kNames[] = {"auto", "cpu", "reference", "cuda"};
static_assert(BANTER_BACKEND_AUTO == 0 && BANTER_BACKEND_CPU == 1 && BANTER_BACKEND_REFERENCE == 2 &&
              BANTER_BACKEND_CUDA == 3);

}  // namespace

banter_backend BackendOptions::kind() const {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (backend == kNames[i]) return static_cast<banter_backend>(i);
  }
  return BANTER_BACKEND_AUTO;
}

void add_cuda_options(CLI::App& app, BackendOptions& options) {
  app.add_option("--cuda-device", options.device, "number of the graphics card; -1: the best one")
      ->check(CLI::Range(-1, 1 << 16))
      ->capture_default_str();
  app.add_option("--cuda-library", options.library,
                 "file of libbanter_cuda.so; default: beside this program or in ../lib");
}

void add_backend_options(CLI::App& app, BackendOptions& options) {
  app.add_option("--backend", options.backend,
                 "cpu, cuda, reference (slow, for checking), or auto: cuda where it works, else cpu")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kNames), std::end(kNames))))
      ->capture_default_str();
  add_cuda_options(app, options);
}

}  // namespace banter::tools
