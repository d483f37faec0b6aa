// NPC profiles: FlatBuffers of sdk/schema/npc_profile.fbs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "banter/types.h"
#include "base/result.h"
#include "dialogue/turn.h"

namespace banter::dialogue {

/** A profile's contents, independent of its bytes. */
struct Profile {
  std::string name;
  std::string persona;         // lore first, then persona, blank lines between
  std::vector<Turn> examples;  // user and assistant in turn
  bool has_sampling = false;
  banter_sampling_config sampling{};  // its ranges are not checked yet; its arrays point to those below
  std::vector<int32_t> bias_tokens;
  std::vector<float> bias_values;
  std::vector<std::string> dry_breakers;
  std::vector<const char*> dry_breaker_texts;
  uint32_t context_tokens = 0;
  uint32_t reply_reserve_tokens = 0;
  int32_t priority = 4;
  banter_context_policy policy = BANTER_CONTEXT_TRIM;
  std::vector<std::string> stop_strings;

  Profile() = default;
  Profile(Profile&&) = default;  // vectors keep their memory, so the pointers stay right
  Profile& operator=(Profile&&) = default;
};

inline constexpr size_t kMostProfileBytes = size_t{16} << 20;
inline constexpr uint32_t kMostProfileStopStrings = 32, kMostProfileBreakers = 32;
inline constexpr size_t kMostStopStringBytes = 256;

/** Reads a profile. `bytes` may have any alignment and contents.
 *  @param sampling_defaults  for parameters that the profile's schema does not know
 *  Errors: CORRUPT (not a profile, damaged, not UTF-8), INVALID_ARGUMENT (a value out of its range). Messages name the
 *  profile, where it has a name, and the field. */
Result<Profile> read_profile(std::span<const std::byte> bytes, const banter_sampling_config& sampling_defaults);

}  // namespace banter::dialogue
