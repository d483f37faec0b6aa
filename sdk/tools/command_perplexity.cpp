// banter perplexity: how well a model predicts a text, measured as llama-perplexity does, so figures can be compared.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "model_session.h"

namespace {

using namespace banter;
using Json = nlohmann::ordered_json;

struct Options {
  tools::ModelOptions model;
  std::string file;
  int32_t context = 512;
  int32_t windows = 0;
  bool json = false;
};

struct Score {
  double sum = 0, sum_of_squares = 0;
  int64_t count = 0;
  double mean() const { return sum / static_cast<double>(count); }
  double perplexity() const { return std::exp(mean()); }
  // Standard error of the mean, carried through the exponential.
  double uncertainty() const {
    const double variance = sum_of_squares / static_cast<double>(count) - mean() * mean();
    return count > 1 && variance > 0 ? std::sqrt(variance / static_cast<double>(count - 1)) * perplexity() : 0.0;
  }
};

bool read_text(const std::string& path, std::string& text) {
  std::ifstream file(path, std::ios::binary);
  text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  if (file.bad() || !file.is_open()) return false;
  if (!text.empty() && text.back() == '\n') text.pop_back();  // llama-perplexity drops it too
  return true;
}

// Tokens of the second half of a window are predicted from everything before them in the window. The first token of
// every window becomes the begin token where the model wants one.
Result<void> score_window(tools::ModelSession& session, kv::SequenceCache& cache, std::vector<model::TokenId>& window,
                          Score& score) {
  const formats::Vocabulary& vocabulary = session.model->tokenizer().vocabulary();
  if (vocabulary.add_bos && vocabulary.bos >= 0) window[0] = vocabulary.bos;
  cache.clear();
  const size_t first = window.size() / 2;
  const size_t computed = window.size() - 1;  // what follows the last token is not in the window
  return session.run(cache, std::span<const model::TokenId>(window).first(computed), computed - first,
                     [&](size_t row, std::span<const float> logits) {
                       const double nll = tools::negative_log_likelihood(logits, window[row + 1]);
                       score.sum += nll;
                       score.sum_of_squares += nll * nll;
                       ++score.count;
                     });
}

int run(const Options& options) {
  std::string text;
  if (!read_text(options.file, text)) return tools::report_failure("perplexity", "cannot read " + options.file);
  std::optional<tools::ModelSession> session = tools::open_model(options.model, options.context);
  if (!session) return 1;
  std::vector<model::TokenId> ids;
  session->model->tokenizer().encode(text, false, ids);
  session->model->tokenizer().add_special(ids);
  const size_t context = static_cast<size_t>(options.context);
  size_t windows = ids.size() / context;
  if (windows == 0) {
    return tools::report_failure("perplexity", "the text has " + std::to_string(ids.size()) +
                                                   " tokens and a window needs " + std::to_string(context) +
                                                   "; use a longer text or a smaller --ctx");
  }
  if (options.windows > 0) windows = std::min(windows, static_cast<size_t>(options.windows));

  Score score;
  kv::SequenceCache cache(*session->pool, options.context);
  const auto start = std::chrono::steady_clock::now();
  double seconds = 0;
  for (size_t w = 0; w < windows; ++w) {
    std::vector<model::TokenId> window(ids.begin() + static_cast<ptrdiff_t>(w * context),
                                       ids.begin() + static_cast<ptrdiff_t>((w + 1) * context));
    if (Result<void> done = score_window(*session, cache, window, score); !done) {
      return tools::report_failure("perplexity", done.error().message);
    }
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::fprintf(stderr, "window %zu of %zu: perplexity %.4f so far, %.0f s to go\n", w + 1, windows,
                 score.perplexity(), seconds / static_cast<double>(w + 1) * static_cast<double>(windows - w - 1));
  }

  const double speed = static_cast<double>(windows * context) / seconds;
  if (options.json) {
    const Json result = {{"perplexity", score.perplexity()},
                         {"uncertainty", score.uncertainty()},
                         {"context", options.context},
                         {"windows", windows},
                         {"tokens", ids.size()},
                         {"scored_tokens", score.count},
                         {"backend", session->backend->name()},
                         {"tokens_per_second", speed}};
    std::printf("%s\n", result.dump().c_str());
    return 0;
  }
  std::printf("perplexity %.4f ± %.4f over %lld tokens in %zu windows of %d (%s, %.1f tokens/s)\n", score.perplexity(),
              score.uncertainty(), static_cast<long long>(score.count), windows, options.context,
              session->backend->name().c_str(), speed);
  return 0;
}

}  // namespace

int command_perplexity(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Measures a model on a text: windows of --ctx tokens that do not overlap, of which the second half is scored, "
      "as llama-perplexity does.",
      "banter perplexity");
  tools::add_model_options(app, options.model);
  app.add_option("--file,-f", options.file, "UTF-8 text")->required();
  app.add_option("--ctx,-c", options.context, "tokens of a window")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  app.add_option("--windows", options.windows, "stop after this many windows; 0: all")->check(CLI::Range(0, 1 << 30));
  app.add_flag("--json", options.json, "one JSON object as the last line of stdout");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
