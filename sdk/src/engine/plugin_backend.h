// A backend from a shared library (ops/backend_plugin.h), and what it takes to get one.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "engine/host.h"
#include "ops/backend.h"
#include "ops/backend_plugin.h"

namespace banter::engine {

/** A backend and what its plugin says of the device, a sentence. */
struct PluginBackend {
  std::unique_ptr<ops::Backend> backend;
  std::string device;
};

/** Opens the library, asks whether it can compute here, and makes its backend. `options` without its log, which `log`
 *  becomes. The library stays for the life of the process once any of its code was run.
 *  Errors, each saying why: FILE_NOT_FOUND, IO; UNSUPPORTED (no library of this system, no backend in it, or no device
 *  that suits); VERSION (of another build than this one); what the backend's creation ends with. */
Result<PluginBackend> create_plugin_backend(const std::string& path, ops::BackendOptions options, const Log& log);

}  // namespace banter::engine
