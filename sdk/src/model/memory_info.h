// How much memory the machine can still give.
#pragma once

#include <cstdint>
#include <optional>

namespace banter::model {

/** Bytes that this process can allocate now without others being swapped out, the smaller of the machine's and (Linux)
 *  the control group's; nullopt where the system does not say. */
std::optional<uint64_t> available_memory();

}  // namespace banter::model
