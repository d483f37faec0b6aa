// The sampler chain.
#include "sampling/sampler.h"

#include <cmath>

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

  TokenId sample(std::span<float> logits, std::span<const TokenId> banned, uint64_t position) override;
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
  /** Bias, bans, penalties. */
  LogitScan adjust(std::span<float> logits, std::span<const TokenId> banned);
  /** Fills the workspace's candidates with weights. @returns the sum of weights */
  double filter(LogitScan& scan, double coin);
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

LogitScan Chain::adjust(std::span<float> logits, std::span<const TokenId> banned) {
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
  return LogitScan(logits, *workspace_);
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
  std::vector<Candidate>& candidates = workspace_->candidates;
  double total = first_candidates(scan);
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

TokenId Chain::sample(std::span<float> logits, std::span<const TokenId> banned, uint64_t position) {
  LogitScan scan = adjust(logits, banned);
  sampled_ = -1;
  if (scan.empty()) return -1;
  if (greedy()) return scan.argmax();
  const Draws random = draws(params_.seed, position);
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
  LogitScan scan = adjust(logits, banned);
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
