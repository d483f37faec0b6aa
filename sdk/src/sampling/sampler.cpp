// The sampler chain.
#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "sampling/dry.h"
#include "sampling/logit_scan.h"
#include "sampling/penalties.h"
#include "sampling/truncation.h"

namespace banter::sampling {
namespace {

/** The two draws of a position: which token, and XTC's coin. 53 bits each, in [0, 1). */
struct Draws {
  double token, coin;
};

Draws draws(uint64_t seed, uint64_t position) {
  const std::array<uint32_t, 4> bits = philox(seed, position);
  const auto uniform = [](uint32_t low, uint32_t high) {
    return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
  };
  return {uniform(bits[0], bits[1]), uniform(bits[2], bits[3])};
}

size_t history_capacity(const SamplingParams& p, int32_t max_tokens) {
  const bool needed = Penalties::enabled(p) || Dry::enabled(p) || p.mirostat != 0;
  return needed ? static_cast<size_t>(max_tokens) : 0;
}

class Chain final : public Sampler {
 public:
  Chain(const SamplingParams& params, int32_t vocabulary_size, int32_t max_tokens, std::shared_ptr<Workspace> workspace)
      : params_(params),
        vocabulary_size_(static_cast<size_t>(vocabulary_size)),
        workspace_(std::move(workspace)),
        history_(history_capacity(params, max_tokens)),
        penalties_(params, history_.capacity()),
        dry_(params, history_.capacity()),
        log_min_p_(params.min_p > 0.0f ? static_cast<float>(std::log(double{params.min_p})) : kNoLogit) {
    workspace_->reserve(vocabulary_size_, dry_.window());
  }

  TokenId sample(const LogitRow& logits, std::span<const TokenId> banned, uint64_t position) override;
  std::span<const TokenProbability> distribution(std::span<float> logits, std::span<const TokenId> banned,
                                                 uint64_t position) override;
  void accept(TokenId token) override;
  void rollback(int32_t count) override;

 private:
  bool greedy() const { return params_.temperature == 0.0f; }
  /** Only temperature stands between the logits and the draw. */
  bool unfiltered() const {
    return params_.mirostat == 0 && params_.top_k == 0 && params_.typical_p == 1.0f && params_.top_p == 1.0f &&
           params_.min_p == 0.0f && params_.xtc_probability == 0.0f;
  }
  /** Bias, bans, penalties never raise a logit, and nothing needs more of them than a few: then the best may suffice. */
  bool best_may_suffice() const;
  /** The token, where it follows from the row's best; else none. */
  std::optional<TokenId> sample_best(const LogitRow& row, std::span<const TokenId> banned, const Draws& random);
  /** Bias, bans, penalties. @returns the logits that tokens have */
  std::span<float> adjust(std::span<float> logits, std::span<const TokenId> banned);
  /** Fills the workspace's candidates with weights. @returns the sum of weights */
  double filter(LogitScan& scan, double coin);
  /** The filters behind the first one. `total`: of the candidates' weights, before any was dropped. */
  double filter_rest(double total, double coin);
  double filter_mirostat(LogitScan& scan);
  /** Top-k, or without it the tokens that the later filters could keep. @returns the sum of weights before any was
   *  dropped */
  double first_candidates(LogitScan& scan);
  /** The same for top-p without top-k; tokens below `floor` will be dropped by min-p anyway. */
  double nucleus_candidates(LogitScan& scan, float floor);
  float mirostat_mu() const {
    return history_.size() > 0 ? history_.newest(0).mirostat_mu : 2.0f * params_.mirostat_tau;
  }

  const SamplingParams params_;
  const size_t vocabulary_size_;
  const std::shared_ptr<Workspace> workspace_;
  TokenHistory history_;
  Penalties penalties_;
  Dry dry_;
  const float log_min_p_;
  TokenId sampled_ = -1;  // mirostat: the last sampled token, and its surprise in bits
  float surprise_ = 0.0f;
};

std::span<float> Chain::adjust(std::span<float> logits, std::span<const TokenId> banned) {
  logits = logits.first(std::min(logits.size(), vocabulary_size_));
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const auto& [token, bias] : params_.logit_bias) {
    if (static_cast<size_t>(token) >= logits.size()) continue;
    float& logit = logits[static_cast<size_t>(token)];
    if (!std::isfinite(logit)) continue;
    logit += bias;
    if (std::isfinite(bias)) logit = std::clamp(logit, -kLargest, kLargest);
  }
  for (const TokenId token : banned)
    if (token >= 0 && static_cast<size_t>(token) < logits.size()) logits[static_cast<size_t>(token)] = kNoLogit;
  if (history_.size() > 0) {
    penalties_.apply(logits);
    dry_.apply(logits, history_, *workspace_);
  }
  return logits;
}

double Chain::first_candidates(LogitScan& scan) {
  std::vector<Candidate>& candidates = workspace_->candidates;
  if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < vocabulary_size_) {
    const auto k = static_cast<size_t>(params_.top_k);
    scan.collect(scan.lower_bound_of_top(k));
    keep_top_k(candidates, k, workspace_->selection);
    return set_weights(candidates);
  }
  if (params_.typical_p < 1.0f) {
    scan.collect(kNoLogit);
    return set_weights(candidates);
  }
  const float floor = scan.max() + log_min_p_;
  if (params_.top_p < 1.0f) return nucleus_candidates(scan, floor);
  scan.collect(floor);
  return set_weights(candidates);
}

double Chain::nucleus_candidates(LogitScan& scan, float floor) {
  const double total = scan.sum_exp();
  const double inside = params_.top_p * total;
  // Tokens below max + log(s) weigh less than n s together: with n s = total - inside they are outside for certain.
  // Most often far fewer hold the nucleus, so we look there first; kSlack covers the rounding of the sums.
  constexpr double kSlack = 1e-5;
  const double depth = std::log(static_cast<double>(vocabulary_size_) / ((1.0 - params_.top_p) * total)) + 0.01;
  for (double tried = 4.0;; tried += 4.0) {
    const bool certain = tried >= depth;
    const float threshold = static_cast<float>(scan.max() - std::min(tried, depth));
    scan.collect(std::max(threshold, floor));
    const double collected = set_weights(workspace_->candidates);
    if (certain || threshold <= floor || collected >= inside * (1.0 + kSlack)) return total;
  }
}

double Chain::filter(LogitScan& scan, double coin) {
  return filter_rest(first_candidates(scan), coin);
}

double Chain::filter_rest(double total, double coin) {
  std::vector<Candidate>& candidates = workspace_->candidates;
  if (params_.typical_p < 1.0f) {
    keep_typical(candidates, params_.typical_p, total, workspace_->selection);
    total = sum_weights(candidates);
  }
  if (params_.top_p < 1.0f) keep_top_p(candidates, params_.top_p, total, workspace_->selection);
  if (params_.min_p > 0.0f) keep_min_p(candidates, log_min_p_);
  if (params_.xtc_probability > 0.0f && coin < params_.xtc_probability)
    remove_top_choices(candidates, params_.xtc_threshold, sum_weights(candidates));
  return set_weights(candidates, params_.temperature);
}

/** Mirostat 2 (Basu et al. 2021): drops tokens whose surprise -log2 p exceeds mu, which accept() steers towards tau. */
double Chain::filter_mirostat(LogitScan& scan) {
  constexpr double kLn2 = 0.693147180559945309;
  const double threshold = scan.max() + std::log(scan.sum_exp()) - mirostat_mu() * kLn2;
  if (threshold > scan.max()) {
    workspace_->candidates.assign(1, {scan.argmax(), scan.max(), 0.0f});
  } else {
    scan.collect(static_cast<float>(threshold));
  }
  return set_weights(workspace_->candidates);
}

bool Chain::best_may_suffice() const {
  const auto k = static_cast<size_t>(params_.top_k);
  if (!greedy() && (params_.mirostat != 0 || k == 0 || k >= vocabulary_size_)) return false;
  if (params_.repetition_penalty < 1.0f || params_.presence_penalty < 0.0f || params_.frequency_penalty < 0.0f) {
    return false;
  }
  return std::all_of(params_.logit_bias.begin(), params_.logit_bias.end(), [](const auto& b) { return b.second <= 0; });
}

std::optional<TokenId> Chain::sample_best(const LogitRow& row, std::span<const TokenId> banned, const Draws& random) {
  // Adjusted in their places in an otherwise empty row; what is not above `rest` any more may rank behind others.
  const std::span<float> logits(workspace_->sparse.data(), vocabulary_size_);
  const auto is_token = [&](TokenId id) { return static_cast<size_t>(id) < vocabulary_size_; };
  for (size_t i = 0; i < row.best.size(); ++i) {
    if (is_token(row.best[i])) logits[static_cast<size_t>(row.best[i])] = row.best_logits[i];
  }
  adjust(logits, banned);
  std::vector<Candidate>& candidates = workspace_->candidates;
  candidates.clear();
  for (const TokenId id : row.best) {
    if (!is_token(id)) continue;
    const float logit = std::exchange(logits[static_cast<size_t>(id)], kNoLogit);
    if (std::isfinite(logit) && logit > row.rest) candidates.push_back({id, logit, 0.0f});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  const size_t needed = greedy() ? 1 : static_cast<size_t>(params_.top_k);
  const bool all_are_here = row.rest == kNoLogit && !candidates.empty();
  if (candidates.size() < needed && !all_are_here) return std::nullopt;
  if (greedy()) {
    return std::max_element(candidates.begin(), candidates.end(),
                            [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; })
        ->id;
  }
  keep_top_k(candidates, needed, workspace_->selection);
  const double total = filter_rest(set_weights(candidates), random.coin);
  return candidates[draw(candidates, total, random.token)].id;
}

TokenId Chain::sample(const LogitRow& row, std::span<const TokenId> banned, uint64_t position) {
  sampled_ = -1;
  const Draws random = draws(params_.seed, position);
  std::span<float> all = row.all;
  if (all.empty()) {
    if (best_may_suffice()) {
      if (const std::optional<TokenId> token = sample_best(row, banned, random)) return *token;
    }
    if (row.fetch != nullptr) all = row.fetch(row.context, row.row);
  }
  LogitScan scan(adjust(all, banned), *workspace_);
  if (scan.empty()) return -1;
  if (greedy()) return scan.argmax();
  if (unfiltered()) return scan.draw(params_.temperature, random.token);
  const double total = params_.mirostat != 0 ? filter_mirostat(scan) : filter(scan, random.coin);
  const Candidate& chosen = workspace_->candidates[draw(workspace_->candidates, total, random.token)];
  if (params_.mirostat != 0) {
    sampled_ = chosen.id;
    surprise_ = static_cast<float>(-std::log2(chosen.weight / total));
  }
  return chosen.id;
}

std::span<const TokenProbability> Chain::distribution(std::span<float> logits, std::span<const TokenId> banned,
                                                      uint64_t position) {
  LogitScan scan(adjust(logits, banned), *workspace_);
  std::vector<TokenProbability>& out = workspace_->probabilities;
  out.clear();
  if (scan.empty()) return out;
  if (greedy()) {
    out.push_back({scan.argmax(), 1.0f});
    return out;
  }
  const double total = params_.mirostat != 0 ? filter_mirostat(scan) : filter(scan, draws(params_.seed, position).coin);
  for (const Candidate& c : workspace_->candidates) out.push_back({c.id, static_cast<float>(c.weight / total)});
  return out;
}

void Chain::accept(TokenId token) {
  if (history_.capacity() == 0) return;
  float mu = mirostat_mu();
  if (token == sampled_ && token >= 0) mu -= params_.mirostat_eta * (surprise_ - params_.mirostat_tau);
  sampled_ = -1;
  penalties_.before_push(history_, token);
  history_.push({token, dry_.since_breaker(history_, token), mu});
}

void Chain::rollback(int32_t count) {
  sampled_ = -1;
  for (; count > 0 && history_.size() > 0; --count) {
    const TokenId token = history_.newest(0).token;
    history_.pop();
    penalties_.after_pop(history_, token);
  }
}

}  // namespace

std::shared_ptr<Workspace> make_workspace() {
  return std::make_shared<Workspace>();
}

Result<std::unique_ptr<Sampler>> Sampler::create(const SamplingParams& params, int32_t vocabulary_size,
                                                 int32_t max_tokens, std::shared_ptr<Workspace> workspace) {
  if (Result<void> valid = validate(params, vocabulary_size); !valid) return valid.error();
  if (max_tokens < 1)
    return Error{BANTER_ERROR_INVALID_ARGUMENT, "a sampler's max_tokens is " + std::to_string(max_tokens) +
                                                    ", which is not in [1, 2147483647]; give the size of the context."};
  if (workspace == nullptr) workspace = make_workspace();
  return std::unique_ptr<Sampler>(std::make_unique<Chain>(params, vocabulary_size, max_tokens, std::move(workspace)));
}

}  // namespace banter::sampling
