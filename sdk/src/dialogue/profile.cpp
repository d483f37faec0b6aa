#include "dialogue/profile.h"

#include <banter_schema/npc_profile_generated.h>

#include <algorithm>
#include <cstring>

#include "dialogue/text_budget.h"

namespace banter::dialogue {
namespace {

constexpr uint32_t kDepth = 4;         // profile → example or sampling → bias
constexpr uint32_t kTables = 1 << 16;  // examples and biases
constexpr uint32_t kLeastContext = 16;
constexpr int kMostPriority = 7;

Error out_of_range(const TextBudget& texts, const std::string& field, const std::string& found) {
  return Error{BANTER_ERROR_INVALID_ARGUMENT, texts.what() + ": " + field + " " + found};
}

std::string indexed(const char* field, size_t index, const char* member = "") {
  return std::string(field) + "[" + std::to_string(index) + "]" + member;
}

Result<void> read_persona(const schema::NpcProfile& in, TextBudget& texts, Profile& out) {
  const auto append = [&](std::string_view text) {
    if (text.empty()) return;
    if (!out.persona.empty()) out.persona += "\n\n";
    out.persona += text;
  };
  if (in.lore() != nullptr) {
    for (uint32_t i = 0; i < in.lore()->size(); ++i) {
      const auto text = texts.take(in.lore()->Get(i), indexed("lore", i));
      if (!text) return text.error();
      append(*text);
    }
  }
  const auto persona = texts.take(in.persona(), "persona");
  if (!persona) return persona.error();
  append(*persona);
  return {};
}

Result<void> read_examples(const schema::NpcProfile& in, TextBudget& texts, Profile& out) {
  if (in.examples() == nullptr) return {};
  for (uint32_t i = 0; i < in.examples()->size(); ++i) {
    const schema::Example& example = *in.examples()->Get(i);
    const auto user = texts.take(example.user(), indexed("examples", i, ".user"));
    if (!user) return user.error();
    const auto reply = texts.take(example.reply(), indexed("examples", i, ".reply"));
    if (!reply) return reply.error();
    if (user->empty()) return out_of_range(texts, indexed("examples", i, ".user"), "is empty; give what is said.");
    if (reply->empty()) return out_of_range(texts, indexed("examples", i, ".reply"), "is empty; give the reply.");
    out.examples.push_back({Role::kUser, std::string(*user)});
    out.examples.push_back({Role::kAssistant, std::string(*reply)});
  }
  return {};
}

Result<void> read_breakers(const schema::Sampling& in, TextBudget& texts, Profile& out) {
  constexpr const char* kField = "sampling.dry_breakers";
  if (in.dry_breakers() == nullptr) return {};
  if (in.dry_breakers()->size() > kMostProfileBreakers) {
    return out_of_range(texts, kField,
                        "are " + std::to_string(in.dry_breakers()->size()) + "; at most " +
                            std::to_string(kMostProfileBreakers) + " are possible.");
  }
  for (uint32_t i = 0; i < in.dry_breakers()->size(); ++i) {
    const auto text = texts.take(in.dry_breakers()->Get(i), indexed(kField, i));
    if (!text) return text.error();
    if (text->find('\0') != std::string_view::npos) {
      return out_of_range(texts, indexed(kField, i), "has a zero byte; leave it out.");
    }
    out.dry_breakers.emplace_back(*text);
  }
  for (const std::string& breaker : out.dry_breakers) out.dry_breaker_texts.push_back(breaker.c_str());
  out.sampling.dry_breakers = out.dry_breaker_texts.data();
  out.sampling.dry_breaker_count = static_cast<uint32_t>(out.dry_breaker_texts.size());
  return {};
}

void read_sampling(const schema::Sampling& in, Profile& out) {
  banter_sampling_config& s = out.sampling;
  s.seed = in.seed();
  s.temperature = in.temperature();
  s.top_k = in.top_k();
  s.top_p = in.top_p();
  s.min_p = in.min_p();
  s.typical_p = in.typical_p();
  s.repetition_penalty = in.repetition_penalty();
  s.presence_penalty = in.presence_penalty();
  s.frequency_penalty = in.frequency_penalty();
  s.penalty_last_tokens = in.penalty_last_tokens();
  s.dry_multiplier = in.dry_multiplier();
  s.dry_base = in.dry_base();
  s.dry_allowed_length = in.dry_allowed_length();
  s.dry_last_tokens = in.dry_last_tokens();
  s.xtc_probability = in.xtc_probability();
  s.xtc_threshold = in.xtc_threshold();
  s.mirostat = in.mirostat();
  s.mirostat_tau = in.mirostat_tau();
  s.mirostat_eta = in.mirostat_eta();
  if (in.logit_bias() != nullptr) {
    for (const schema::LogitBias* bias : *in.logit_bias()) {
      out.bias_tokens.push_back(bias->token());
      out.bias_values.push_back(bias->value());
    }
  }
  s.logit_bias_count = static_cast<uint32_t>(out.bias_tokens.size());
  s.logit_bias_tokens = out.bias_tokens.data();
  s.logit_bias_values = out.bias_values.data();
  out.has_sampling = true;
}

Result<void> read_limits(const schema::NpcProfile& in, const TextBudget& texts, Profile& out) {
  out.context_tokens = in.context_tokens();
  if (out.context_tokens != 0 && out.context_tokens < kLeastContext) {
    return out_of_range(texts, "context_tokens",
                        "is " + std::to_string(out.context_tokens) + "; give 0 for the model's, or at least 16.");
  }
  out.reply_reserve_tokens = in.reply_reserve_tokens();
  out.policy = static_cast<banter_context_policy>(in.context_policy());
  if (out.policy < BANTER_CONTEXT_TRIM || out.policy > BANTER_CONTEXT_STOP) {
    return out_of_range(texts, "context_policy", "is " + std::to_string(out.policy) + "; give 0 to 3.");
  }
  out.priority = in.priority();
  if (out.priority < 0 || out.priority > kMostPriority) {
    return out_of_range(texts, "priority", "is " + std::to_string(out.priority) + "; give a value in [0, 7].");
  }
  return {};
}

Result<void> read_stop_strings(const schema::NpcProfile& in, TextBudget& texts, Profile& out) {
  if (in.stop_strings() == nullptr) return {};
  if (in.stop_strings()->size() > kMostProfileStopStrings) {
    return out_of_range(texts, "stop_strings",
                        "are " + std::to_string(in.stop_strings()->size()) + "; at most " +
                            std::to_string(kMostProfileStopStrings) + " are possible.");
  }
  for (uint32_t i = 0; i < in.stop_strings()->size(); ++i) {
    const auto text = texts.take(in.stop_strings()->Get(i), indexed("stop_strings", i));
    if (!text) return text.error();
    if (text->empty() || text->size() > kMostStopStringBytes) {
      return out_of_range(texts, indexed("stop_strings", i),
                          "has " + std::to_string(text->size()) + " bytes; give 1 to 256.");
    }
    out.stop_strings.emplace_back(*text);
  }
  return {};
}

}  // namespace

Result<Profile> read_profile(std::span<const std::byte> bytes, const banter_sampling_config& sampling_defaults) {
  if (bytes.size() > kMostProfileBytes) {
    return Error{BANTER_ERROR_INVALID_ARGUMENT,
                 "The profile has " + std::to_string(bytes.size()) + " bytes; profiles of up to 16 MiB are read."};
  }
  // A copy has the alignment that reading it in place needs.
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  const auto* const data = reinterpret_cast<const uint8_t*>(copy.data());
  flatbuffers::Verifier verifier(data, copy.size(), kDepth, kTables);
  if (!schema::VerifyNpcProfileBuffer(verifier)) {
    return Error{
        BANTER_ERROR_CORRUPT,
        "The profile is not a compiled npc_profile.fbs, or it is damaged; compile its JSON with flatc --binary."};
  }
  const schema::NpcProfile& in = *schema::GetNpcProfile(data);
  Profile out;
  TextBudget unnamed("The profile", copy.size());
  const auto name = unnamed.take(in.name(), "name");
  if (!name) return name.error();
  out.name = *name;
  constexpr size_t kShownName = 64;
  const bool show = !name->empty() && name->size() <= kShownName;
  TextBudget texts(show ? "The profile '" + out.name + "'" : "The profile", copy.size());

  if (Result<void> read = read_persona(in, texts, out); !read) return read.error();
  if (Result<void> read = read_examples(in, texts, out); !read) return read.error();
  if (Result<void> read = read_limits(in, texts, out); !read) return read.error();
  if (Result<void> read = read_stop_strings(in, texts, out); !read) return read.error();
  out.sampling = sampling_defaults;
  if (in.sampling() != nullptr) {
    read_sampling(*in.sampling(), out);
    if (Result<void> read = read_breakers(*in.sampling(), texts, out); !read) return read.error();
  }
  return out;
}

}  // namespace banter::dialogue
