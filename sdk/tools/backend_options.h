// Which backend a command computes with.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "banter/types.h"
#include "engine/backend_loader.h"

namespace banter::tools {

/** `--backend`, `--cuda-device`, `--cuda-library`. */
struct BackendOptions {
  std::string backend = "auto";
  std::string library;  // "": where the engine looks for it
  int device = -1;      // the best

  banter_backend kind() const;
  engine::CudaSettings cuda() const { return {library, device, {}}; }
};
void add_backend_options(CLI::App& app, BackendOptions& options);
/** The two about the card only. */
void add_cuda_options(CLI::App& app, BackendOptions& options);

}  // namespace banter::tools
