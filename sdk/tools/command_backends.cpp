// banter backends: what could compute here, and why not what cannot.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "backend_options.h"
#include "base/thread_pool.h"
#include "commands.h"
#include "model_session.h"

using banter::Result;
using banter::engine::BackendChoice;

int command_backends(int argc, char** argv) {
  CLI::App app{"Shows which backends work on this machine, and which one --backend auto takes.", "banter backends"};
  banter::tools::BackendOptions options;
  bool json = false;
  banter::tools::add_cuda_options(app, options);
  app.add_flag("--json", json, "one JSON object as the last line of stdout");
  CLI11_PARSE(app, argc, argv);

  auto threads = banter::ThreadPool::create({.threads = 1, .low_priority = false});
  if (!threads) return banter::tools::report_failure("backends", threads.error().message);
  const Result<BackendChoice> cuda = banter::engine::create_cuda_backend(options.cuda(), **threads, 0, {});
  const Result<BackendChoice> cpu = banter::engine::create_cpu_backend(**threads, {});
  if (!cpu) return banter::tools::report_failure("backends", cpu.error().message);

  const std::string cuda_name = cuda ? cuda->backend->name() : "";
  const std::string cuda_reason = cuda ? cuda->reason : cuda.error().message;
  if (json) {
    const nlohmann::ordered_json result = {{"auto", cuda ? cuda_name : cpu->backend->name()},
                                           {"cpu", cpu->backend->name()},
                                           {"cuda", cuda ? nlohmann::ordered_json(cuda_name) : nullptr},
                                           {"cuda_reason", cuda_reason}};
    std::printf("%s\n", result.dump().c_str());
  } else {
    std::printf("cuda       %s%s%s\n", cuda_name.c_str(), cuda ? ": " : "not here: ", cuda_reason.c_str());
    std::printf("cpu        %s\n", cpu->backend->name().c_str());
    std::printf("reference  plain loops, for checking\n");
    std::printf("\n--backend auto is %s.\n", cuda ? "cuda" : "cpu");
  }
  return 0;
}
