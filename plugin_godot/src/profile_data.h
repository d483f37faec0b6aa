// What a BanterProfile holds, and its two written forms: the FlatBuffer of sdk/schema/npc_profile.fbs, and the JSON that
// flatc makes one of. Knows nothing of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "errors.h"

namespace banter::godot {

// Numbers of Sampling: name, default, least, most, what the inspector shows. Those that may not reach 0 or 1 stop short.
#define BANTER_PROFILE_REALS(X)                                          \
  X(temperature, 0.7, 0.0, 10.0, "0,2,0.01,or_greater")                  \
  X(top_p, 0.95, 1e-6, 1.0, "0.01,1,0.01")                               \
  X(min_p, 0.05, 0.0, 0.999999, "0,0.99,0.01")                           \
  X(typical_p, 1.0, 1e-6, 1.0, "0.01,1,0.01")                            \
  X(repetition_penalty, 1.0, 0.01, 10.0, "0.5,2,0.01,or_greater")        \
  X(presence_penalty, 0.0, -10.0, 10.0, "-2,2,0.01,or_less,or_greater")  \
  X(frequency_penalty, 0.0, -10.0, 10.0, "-2,2,0.01,or_less,or_greater") \
  X(dry_multiplier, 0.0, 0.0, 100.0, "0,5,0.01,or_greater")              \
  X(dry_base, 1.75, 1.0, 10.0, "1,4,0.01,or_greater")                    \
  X(xtc_probability, 0.0, 0.0, 1.0, "0,1,0.01")                          \
  X(xtc_threshold, 0.1, 0.0, 1.0, "0,1,0.01")                            \
  X(mirostat_tau, 5.0, 1e-6, 100.0, "0.1,20,0.1,or_greater")             \
  X(mirostat_eta, 0.1, 1e-6, 1.0, "0.01,1,0.01")
#define BANTER_PROFILE_WHOLES(X)                                    \
  X(top_k, 40, 0, INT32_MAX, "0,200,1,or_greater")                  \
  X(penalty_last_tokens, 64, -1, INT32_MAX, "-1,1024,1,or_greater") \
  X(dry_allowed_length, 2, 1, INT32_MAX, "1,20,1,or_greater")       \
  X(dry_last_tokens, -1, -1, INT32_MAX, "-1,4096,1,or_greater")     \
  X(mirostat, 0, 0, 2, "Off:0,On:2")

/** The numbers that choose tokens. */
struct ProfileSampling {
#define BANTER_PROFILE_MEMBER(name, value, least, most, hint) double name = value;
  BANTER_PROFILE_REALS(BANTER_PROFILE_MEMBER)
#undef BANTER_PROFILE_MEMBER
#define BANTER_PROFILE_MEMBER(name, value, least, most, hint) int64_t name = value;
  BANTER_PROFILE_WHOLES(BANTER_PROFILE_MEMBER)
#undef BANTER_PROFILE_MEMBER
  int64_t seed = 0;
  std::vector<std::pair<int64_t, double>> logit_bias;  // token, what is added to its score
  std::vector<std::string> dry_breakers;
  bool operator==(const ProfileSampling&) const = default;
};

/** A profile's contents. */
struct ProfileData {
  std::string name, persona;
  std::vector<std::string> lore;
  std::vector<std::string> examples;  // what is said and what is replied, in turn
  std::vector<std::string> stop_strings;
  ProfileSampling sampling;
  int64_t priority = 4, context_policy = 0, context_tokens = 0, reply_reserve_tokens = 0;
  bool operator==(const ProfileData&) const = default;
};

/** What came of reading one. */
struct ProfileOutcome {
  int64_t error = kOk;  // of Godot's Error
  std::string message;  // a sentence where it is not kOk
};

inline constexpr size_t kMostProfileBytes = size_t{16} << 20;

/** Reads a FlatBuffer, which may be any bytes. `out` is changed only by a profile that is all right.
 *  Errors: kErrFileCorrupt, kErrParameterRange. */
ProfileOutcome read_profile_binary(std::span<const std::byte> bytes, ProfileData& out);
/** Reads JSON as flatc takes it, fields by the schema's names; unknown ones are refused. `out` as above.
 *  Errors: kErrParseError, kErrFileCorrupt, kErrParameterRange. */
ProfileOutcome read_profile_json(std::string_view text, ProfileData& out);
/** The FlatBuffer. An example without its reply is left out. */
std::vector<std::byte> write_profile_binary(const ProfileData& profile);

/** What is wrong with the values, or kOk: ranges, numbers and lengths of strings. */
ProfileOutcome check_profile(const ProfileData& profile);

}  // namespace banter::godot
