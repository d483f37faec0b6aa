// Filters that shorten the list of candidates. All keep the list's order (ids ascending) and at least one candidate.
#pragma once

#include <vector>

#include "sampling/workspace.h"

namespace banter::sampling {

/** Sets weights to e^((logit - largest logit) / temperature). @returns their sum, >= 1. */
double set_weights(std::vector<Candidate>& candidates, float temperature = 1.0f);
double sum_weights(const std::vector<Candidate>& candidates);

/** Keeps the `k` >= 1 best by (logit descending, id ascending). Selection, no sort: O(n). */
void keep_top_k(std::vector<Candidate>& candidates, size_t k, std::vector<Candidate>& scratch);
/** Locally typical sampling (Meister et al. 2022): keeps the candidates whose -log p is nearest the entropy, until
 *  their mass reaches `mass`. `total` = sum of weights e^(logit - largest logit). */
void keep_typical(std::vector<Candidate>& candidates, double mass, double total, std::vector<Candidate>& scratch);
/** Nucleus (Holtzman et al. 2020): keeps the shortest run of best candidates whose weight reaches mass * total. `total`
 *  may exceed the candidates' own sum when some were left out that cannot be in the nucleus. */
void keep_top_p(std::vector<Candidate>& candidates, double mass, double total, std::vector<Candidate>& scratch);
/** Keeps p >= min_p * largest p. @param log_min_p  log(min_p) */
void keep_min_p(std::vector<Candidate>& candidates, float log_min_p);
/** Exclude top choices: removes all candidates with p >= threshold but the least probable of them. `total` = sum of
 *  weights. */
void remove_top_choices(std::vector<Candidate>& candidates, double threshold, double total);
/** Index of the candidate at u in [0, 1) of the summed weights. */
size_t draw(const std::vector<Candidate>& candidates, double total, double u);

}  // namespace banter::sampling
