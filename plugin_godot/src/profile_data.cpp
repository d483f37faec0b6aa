#include "profile_data.h"

#include <banter_profile/npc_profile_generated.h>

#include <charconv>

#include "text_check.h"

namespace banter::godot {
namespace {

namespace fb = banter::schema;

constexpr uint32_t kDepth = 4, kTables = 1 << 16;
constexpr size_t kMostStrings = 32, kMostStopBytes = 256, kMostBreakerBytes = 40;

/** A float of a file as a person would write it: 0.8, not 0.800000011920929. */
double shown(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);
  double out = value;
  std::from_chars(text, end.ptr, out);
  return out;
}

/** Takes texts of a verified buffer. Many offsets may name one text, so all together may not be larger than the file. */
class Texts {
 public:
  explicit Texts(size_t bytes) : left_(bytes) {}

  std::string take(const flatbuffers::String* text, const char* field) {
    if (text == nullptr || failed()) return {};
    const std::string_view view(text->c_str(), text->size());
    if (view.size() > left_) {
      message_ = std::string("The profile's texts are together larger than its file (at ") + field + ").";
      return {};
    }
    left_ -= view.size();
    if (!is_text(view)) {
      message_ = std::string("The profile's ") + field + " is no UTF-8, or has a zero byte.";
      return {};
    }
    return std::string(view);
  }
  std::vector<std::string> take(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* list,
                                const char* field) {
    std::vector<std::string> out;
    if (list == nullptr) return out;
    for (const flatbuffers::String* const text : *list) {
      out.push_back(take(text, field));
      if (failed()) break;
    }
    return out;
  }
  bool failed() const { return !message_.empty(); }
  const std::string& message() const { return message_; }

 private:
  size_t left_;
  std::string message_;
};

void read_sampling(const fb::Sampling& in, Texts& texts, ProfileSampling& out) {
#define BANTER_PROFILE_READ(name, value, least, most, hint) out.name = shown(in.name());
  BANTER_PROFILE_REALS(BANTER_PROFILE_READ)
#undef BANTER_PROFILE_READ
#define BANTER_PROFILE_READ(name, value, least, most, hint) out.name = in.name();
  BANTER_PROFILE_WHOLES(BANTER_PROFILE_READ)
#undef BANTER_PROFILE_READ
  out.seed = static_cast<int64_t>(in.seed());
  if (in.logit_bias() != nullptr) {
    for (const fb::LogitBias* const bias : *in.logit_bias()) {
      out.logit_bias.emplace_back(bias->token(), shown(bias->value()));
    }
  }
  out.dry_breakers = texts.take(in.dry_breakers(), "sampling.dry_breakers");
}

ProfileOutcome out_of_range(const std::string& what) {
  return {kErrParameterRange, "The profile's " + what};
}

std::string number(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

ProfileOutcome check_strings(const std::vector<std::string>& strings, const char* field, size_t most_bytes) {
  if (strings.size() > kMostStrings) {
    return out_of_range(std::string(field) + " are " + std::to_string(strings.size()) + "; at most 32 are possible.");
  }
  for (const std::string& text : strings) {
    if (!text.empty() && text.size() <= most_bytes) continue;
    return out_of_range("string in " + std::string(field) + " has " + std::to_string(text.size()) +
                        " bytes; give 1 to " + std::to_string(most_bytes) + ".");
  }
  return {};
}

ProfileOutcome check_sampling(const ProfileSampling& s) {
  // Written so that what is no number fails, too.
#define BANTER_PROFILE_CHECK(name, value, least, most, hint)                             \
  if (!(static_cast<double>(s.name) >= static_cast<double>(least) &&                     \
        static_cast<double>(s.name) <= static_cast<double>(most))) {                     \
    return out_of_range("sampling." #name " is " + number(static_cast<double>(s.name)) + \
                        "; give " #least " to " #most ".");                              \
  }
  BANTER_PROFILE_REALS(BANTER_PROFILE_CHECK)
  BANTER_PROFILE_WHOLES(BANTER_PROFILE_CHECK)
#undef BANTER_PROFILE_CHECK
  if (s.mirostat == 1) return out_of_range("sampling.mirostat is 1; give 0 (off) or 2.");
  for (const auto& [token, value] : s.logit_bias) {
    const bool is_value =
        value <= static_cast<double>(std::numeric_limits<float>::max());  // not NaN; minus infinity bans
    if (is_value && token >= 0 && token <= INT32_MAX) continue;
    return out_of_range("sampling.logit_bias is " + number(value) + " for token " + std::to_string(token) +
                        "; give a token of the vocabulary, and a number or minus infinity.");
  }
  return check_strings(s.dry_breakers, "sampling.dry_breakers", kMostBreakerBytes);
}

}  // namespace

ProfileOutcome check_profile(const ProfileData& profile) {
  if (profile.examples.size() % 2 != 0) return out_of_range("last example has no reply.");
  for (const std::string& text : profile.examples) {
    if (text.empty()) return out_of_range("examples have an empty text; give what is said, and the reply.");
  }
  if (profile.context_tokens < 0 || profile.context_tokens > UINT32_MAX ||
      (profile.context_tokens != 0 && profile.context_tokens < 16)) {
    return out_of_range("context_tokens is " + std::to_string(profile.context_tokens) +
                        "; give 0 for the model's, or at least 16.");
  }
  if (profile.reply_reserve_tokens < 0 || profile.reply_reserve_tokens > UINT32_MAX) {
    return out_of_range("reply_reserve_tokens is " + std::to_string(profile.reply_reserve_tokens) +
                        "; give 0 or more.");
  }
  if (profile.priority < 0 || profile.priority > 7) {
    return out_of_range("priority is " + std::to_string(profile.priority) + "; give 0 to 7.");
  }
  if (profile.context_policy < BANTER_CONTEXT_TRIM || profile.context_policy > BANTER_CONTEXT_STOP) {
    return out_of_range("context_policy is " + std::to_string(profile.context_policy) + "; give 0 to 3.");
  }
  if (auto checked = check_strings(profile.stop_strings, "stop_strings", kMostStopBytes); checked.error != kOk) {
    return checked;
  }
  return check_sampling(profile.sampling);
}

ProfileOutcome read_profile_binary(std::span<const std::byte> bytes, ProfileData& out) {
  if (bytes.size() > kMostProfileBytes) return {kErrFileCorrupt, "The profile is larger than 16 MiB."};
  // A copy has the alignment that reading it in place needs.
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  const auto* const data = reinterpret_cast<const uint8_t*>(copy.data());
  flatbuffers::Verifier verifier(data, copy.size(), kDepth, kTables);
  if (!fb::VerifyNpcProfileBuffer(verifier)) {
    return {kErrFileCorrupt,
            "This is no compiled npc_profile.fbs, or it is damaged; compile its JSON with flatc --binary."};
  }
  const fb::NpcProfile& in = *fb::GetNpcProfile(data);
  Texts texts(copy.size());
  ProfileData read;
  read.name = texts.take(in.name(), "name");
  read.lore = texts.take(in.lore(), "lore");
  read.persona = texts.take(in.persona(), "persona");
  if (in.examples() != nullptr) {
    for (const fb::Example* const example : *in.examples()) {
      read.examples.push_back(texts.take(example->user(), "examples"));
      read.examples.push_back(texts.take(example->reply(), "examples"));
      if (texts.failed()) break;
    }
  }
  if (in.sampling() != nullptr) read_sampling(*in.sampling(), texts, read.sampling);
  read.stop_strings = texts.take(in.stop_strings(), "stop_strings");
  if (texts.failed()) return {kErrFileCorrupt, texts.message()};
  read.context_tokens = in.context_tokens();
  read.reply_reserve_tokens = in.reply_reserve_tokens();
  read.priority = in.priority();
  read.context_policy = static_cast<int64_t>(in.context_policy());
  if (ProfileOutcome checked = check_profile(read); checked.error != kOk) return checked;
  out = std::move(read);
  return {};
}

std::vector<std::byte> write_profile_binary(const ProfileData& profile) {
  flatbuffers::FlatBufferBuilder builder;
  const auto strings = [&](const std::vector<std::string>& list) {
    return list.empty() ? flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>>()
                        : builder.CreateVectorOfStrings(list);
  };
  const auto text = [&](const std::string& value) {
    return value.empty() ? flatbuffers::Offset<flatbuffers::String>() : builder.CreateString(value);
  };
  const ProfileSampling& s = profile.sampling;
  std::vector<flatbuffers::Offset<fb::LogitBias>> biases;
  for (const auto& [token, value] : s.logit_bias) {
    biases.push_back(fb::CreateLogitBias(builder, static_cast<int32_t>(token), static_cast<float>(value)));
  }
  const auto bias_list = biases.empty() ? 0 : builder.CreateVector(biases);
  const auto breakers = strings(s.dry_breakers);
  fb::SamplingBuilder sampling(builder);
#define BANTER_PROFILE_WRITE(name, value, least, most, hint) sampling.add_##name(static_cast<float>(s.name));
  BANTER_PROFILE_REALS(BANTER_PROFILE_WRITE)
#undef BANTER_PROFILE_WRITE
#define BANTER_PROFILE_WRITE(name, value, least, most, hint) sampling.add_##name(static_cast<int32_t>(s.name));
  BANTER_PROFILE_WHOLES(BANTER_PROFILE_WRITE)
#undef BANTER_PROFILE_WRITE
  sampling.add_seed(static_cast<uint64_t>(s.seed));
  sampling.add_logit_bias(bias_list);
  sampling.add_dry_breakers(breakers);
  const auto sampling_table = sampling.Finish();

  std::vector<flatbuffers::Offset<fb::Example>> examples;
  for (size_t i = 0; i + 1 < profile.examples.size(); i += 2) {
    examples.push_back(fb::CreateExample(builder, builder.CreateString(profile.examples[i]),
                                         builder.CreateString(profile.examples[i + 1])));
  }
  const auto example_list = examples.empty() ? 0 : builder.CreateVector(examples);
  const auto name = text(profile.name), persona = text(profile.persona);
  const auto lore = strings(profile.lore), stops = strings(profile.stop_strings);
  fb::NpcProfileBuilder root(builder);
  root.add_name(name);
  root.add_lore(lore);
  root.add_persona(persona);
  root.add_examples(example_list);
  root.add_sampling(sampling_table);
  root.add_context_tokens(static_cast<uint32_t>(profile.context_tokens));
  root.add_reply_reserve_tokens(static_cast<uint32_t>(profile.reply_reserve_tokens));
  root.add_priority(static_cast<int8_t>(profile.priority));
  root.add_stop_strings(stops);
  root.add_context_policy(static_cast<fb::ContextPolicy>(profile.context_policy));
  fb::FinishNpcProfileBuffer(builder, root.Finish());
  const auto* const first = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {first, first + builder.GetSize()};
}

}  // namespace banter::godot
