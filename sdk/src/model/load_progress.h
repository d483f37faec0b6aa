// How loading tells how far it is, and is told to stop.
#pragma once

#include <functional>

namespace banter::model {

/** Told the fraction loaded, [0, 1], on the loading thread, often enough (every 100 ms or so) for a progress bar and for
 *  cancelling; returns false to give up (CANCELLED). */
using LoadProgress = std::function<bool(float fraction)>;

}  // namespace banter::model
