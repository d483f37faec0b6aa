// Profiles from JSON, as flatc reads it with sdk/schema/npc_profile.fbs.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "profile_data.h"
#include "text_check.h"

namespace banter::godot {
namespace {

using Json = nlohmann::json;
/** Takes a value, or says false where it is of another kind. */
using Take = std::function<bool(const Json&)>;
using Fields = std::map<std::string, Take, std::less<>>;

Take text_into(std::string& out) {
  return [&out](const Json& value) {
    if (!value.is_string()) return false;
    out = value.get_ref<const std::string&>();
    return is_text(out);
  };
}

Take texts_into(std::vector<std::string>& out) {
  return [&out](const Json& value) {
    if (!value.is_array()) return false;
    for (const Json& entry : value) {
      if (!entry.is_string() || !is_text(entry.get_ref<const std::string&>())) return false;
      out.push_back(entry.get<std::string>());
    }
    return true;
  };
}

Take real_into(double& out) {
  return [&out](const Json& value) {
    if (!value.is_number()) return false;
    out = value.get<double>();
    return true;
  };
}

Take whole_into(int64_t& out) {
  return [&out](const Json& value) {
    if (!value.is_number_integer()) return false;
    // Numbers beyond int64 become what no range holds, but for seeds, which have 64 bits of their own.
    out = value.is_number_unsigned() ? static_cast<int64_t>(value.get<uint64_t>()) : value.get<int64_t>();
    return true;
  };
}

Take policy_into(int64_t& out) {
  return [&out](const Json& value) {
    if (value.is_number_integer()) return whole_into(out)(value);
    if (!value.is_string()) return false;
    constexpr const char* kNames[] = {"Trim", "Summarize", "Slide", "Stop"};
    for (int64_t i = 0; i < 4; i++) {
      if (value == kNames[i]) {
        out = i;
        return true;
      }
    }
    return false;
  };
}

/** Gives each member of an object to its field; the name of the first that is unknown or wrong, or nothing. */
std::string take_fields(const Json& object, const Fields& fields, const std::string& prefix) {
  if (!object.is_object()) return prefix.empty() ? "profile" : prefix;
  const std::string before = prefix.empty() ? "" : prefix + ".";
  for (const auto& [name, value] : object.items()) {
    const auto found = fields.find(name);
    if (found == fields.end() || !found->second(value)) return before + name;
  }
  return {};
}

Take examples_into(std::vector<std::string>& out) {
  return [&out](const Json& value) {
    if (!value.is_array()) return false;
    for (const Json& entry : value) {
      std::string user, reply;
      if (!take_fields(entry, {{"user", text_into(user)}, {"reply", text_into(reply)}}, "examples").empty())
        return false;
      out.push_back(std::move(user));
      out.push_back(std::move(reply));
    }
    return true;
  };
}

Take bias_into(std::vector<std::pair<int64_t, double>>& out) {
  return [&out](const Json& value) {
    if (!value.is_array()) return false;
    for (const Json& entry : value) {
      int64_t token = 0;
      double added = 0;
      const Take number = [&added](const Json& v) {
        // flatc writes and reads a ban as a word.
        if (v == "-inf" || v == "-infinity") return added = -INFINITY, true;
        return real_into(added)(v);
      };
      if (!take_fields(entry, {{"token", whole_into(token)}, {"value", number}}, "logit_bias").empty()) return false;
      out.emplace_back(token, added);
    }
    return true;
  };
}

Fields sampling_fields(ProfileSampling& s) {
  Fields fields;
#define BANTER_PROFILE_FIELD(name, value, least, most, hint) fields.emplace(#name, real_into(s.name));
  BANTER_PROFILE_REALS(BANTER_PROFILE_FIELD)
#undef BANTER_PROFILE_FIELD
#define BANTER_PROFILE_FIELD(name, value, least, most, hint) fields.emplace(#name, whole_into(s.name));
  BANTER_PROFILE_WHOLES(BANTER_PROFILE_FIELD)
#undef BANTER_PROFILE_FIELD
  fields.emplace("seed", whole_into(s.seed));
  fields.emplace("logit_bias", bias_into(s.logit_bias));
  fields.emplace("dry_breakers", texts_into(s.dry_breakers));
  return fields;
}

}  // namespace

ProfileOutcome read_profile_json(std::string_view text, ProfileData& out) {
  if (text.size() > kMostProfileBytes) return {kErrFileCorrupt, "The profile is larger than 16 MiB."};
  const Json json = Json::parse(text, nullptr, false, true);  // comments are as welcome as to flatc
  if (json.is_discarded()) return {kErrParseError, "The profile is no valid JSON."};
  ProfileData read;
  std::string in_sampling;
  const Fields fields = {{"name", text_into(read.name)},
                         {"lore", texts_into(read.lore)},
                         {"persona", text_into(read.persona)},
                         {"examples", examples_into(read.examples)},
                         {"sampling",
                          [&](const Json& value) {
                            in_sampling = take_fields(value, sampling_fields(read.sampling), "sampling");
                            return in_sampling.empty();
                          }},
                         {"context_tokens", whole_into(read.context_tokens)},
                         {"reply_reserve_tokens", whole_into(read.reply_reserve_tokens)},
                         {"priority", whole_into(read.priority)},
                         {"stop_strings", texts_into(read.stop_strings)},
                         {"context_policy", policy_into(read.context_policy)}};
  std::string wrong = take_fields(json, fields, "");
  if (!in_sampling.empty()) wrong = in_sampling;
  if (!wrong.empty()) {
    return {kErrFileCorrupt, "The profile's '" + wrong + "' is unknown or of another kind; see npc_profile.fbs."};
  }
  if (ProfileOutcome checked = check_profile(read); checked.error != kOk) return checked;
  out = std::move(read);
  return {};
}

}  // namespace banter::godot
