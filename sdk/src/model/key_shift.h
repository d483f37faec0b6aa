// What can be taken off every key of a head before it is quantised, because attention cannot tell.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "model/hyperparameters.h"
#include "ops/backend.h"

namespace banter::model {

/** Keys are R_t (W x + b): the bias, rotated to the position t. Some models (Qwen2) have biases a hundred times larger than
 *  what x contributes, in the pairs of dimensions that hardly rotate: they are nearly the same in all keys, tell attention
 *  nothing, and leave a quantiser nothing for what does. One vector subtracted from all keys of a head changes all scores
 *  of a query by the same number, so softmax gives the same weights; this is the vector that leaves least of the biases:
 *  the mean of R_t b over positions [0, kShiftPositions).
 *  @param rope  null: keys are not rotated
 *  @param bias  [kv_heads][head_dim]
 *  @returns as `bias`, for ops::RopeKvParams::k_shift; 0 where it would not be a number */
std::vector<float> key_shift(const ops::RopeSpec* rope, std::span<const float> bias, int32_t head_dim);

/** Fixed, so that a model's words do not depend on the context that was configured. Beyond it pairs slowly turn away from
 *  their mean: it is as long as conversations mostly are. */
inline constexpr int32_t kShiftPositions = 4096;

/** Whether keys of this model may be shifted on this backend. A cap on the scores (Gemma 2) notices a shift, and a norm
 *  stands between bias and rotation. */
bool can_shift_keys(const Hyperparameters& hp, const ops::Backend& backend);

/** How much the biases disturb a coarse quantiser in the head where they do so most: the root mean square of what is left
 *  of them, over that of W x for independent components of the normed input; 0: the model has none. Above 1 the steps of
 *  INT4 follow the bias more than the token.
 *  @param is_shifted  key_shift() is taken off
 *  Errors: those of Gguf::read(). */
Result<double> key_bias_left(const formats::Gguf& file, const Hyperparameters& hp, bool is_shifted);

}  // namespace banter::model
