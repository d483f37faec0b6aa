// banter logits: what the model thinks of every position of a prompt.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "commands.h"
#include "model_session.h"

namespace {

using namespace banter;
using Json = nlohmann::ordered_json;

struct Options {
  tools::ModelOptions model;
  std::vector<int32_t> ids;
  std::string out;
  int32_t top = 0;
  bool json = false;
};

struct FileClose {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// [[id, logit], …] of the `count` best, best first; of equal ones the smaller id.
Json best(std::span<const float> logits, size_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  count = std::min(count, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  });
  Json result = Json::array();
  for (size_t i = 0; i < count; ++i) result.push_back({ids[i], logits[static_cast<size_t>(ids[i])]});
  return result;
}

int run(const Options& options) {
  std::optional<tools::ModelSession> session = tools::open_model(options.model, 0);
  if (!session) return 1;
  const model::Hyperparameters& hp = session->model->hyperparameters();
  std::unique_ptr<std::FILE, FileClose> file;
  if (!options.out.empty()) {
    file.reset(std::fopen(options.out.c_str(), "wb"));
    if (file == nullptr) return tools::report_failure("logits", "cannot write to " + options.out);
  }

  kv::SequenceCache cache(*session->pool, hp.context);
  std::vector<double> nll;
  bool is_written = true;
  Json tops = Json::array();
  const Result<void> done =
      session->run(cache, options.ids, options.ids.size(), [&](size_t row, std::span<const float> logits) {
        if (file != nullptr) {
          is_written =
              is_written && std::fwrite(logits.data(), sizeof(float), logits.size(), file.get()) == logits.size();
        }
        if (row + 1 < options.ids.size()) nll.push_back(tools::negative_log_likelihood(logits, options.ids[row + 1]));
        if (options.top > 0) tops.push_back(best(logits, static_cast<size_t>(options.top)));
      });
  if (!done) return tools::report_failure("logits", done.error().message);
  if (file != nullptr && (std::fclose(file.release()) != 0 || !is_written)) {
    return tools::report_failure("logits", "could not write all of " + options.out + "; is the disk full?");
  }

  const double nll_sum = std::accumulate(nll.begin(), nll.end(), 0.0);
  if (options.json) {
    Json result = {{"rows", options.ids.size()},
                   {"vocabulary", hp.vocabulary},
                   {"backend", session->backend->name()},
                   {"nll_sum", nll_sum},
                   {"nll", nll}};
    if (options.top > 0) result["top"] = std::move(tops);
    std::printf("%s\n", result.dump().c_str());
    return 0;
  }
  std::printf("%zu rows of %d float32 logits", options.ids.size(), hp.vocabulary);
  if (!options.out.empty()) std::printf(" in %s", options.out.c_str());
  std::printf("; negative log-likelihood of the ids %.6f\n", nll_sum);
  return 0;
}

}  // namespace

int command_logits(int argc, char** argv) {
  Options options;
  CLI::App app("Writes the logits at every position of a prompt: float32, [positions][vocabulary].", "banter logits");
  tools::add_model_options(app, options.model);
  app.add_option("--ids", options.ids, "token ids: 1,2,3")->required()->delimiter(',');
  app.add_option("--out,-o", options.out, "file for the logits");
  app.add_option("--top", options.top, "with --json: the N best ids and logits of every position")
      ->check(CLI::Range(0, 1000));
  app.add_flag("--json", options.json,
               "one JSON object as the last line of stdout: rows, vocabulary, backend, nll_sum, nll, top");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
