#include "banter_profile.h"

#include <algorithm>

#include "file_access_io.h"

namespace banter::godot {
namespace {

constexpr int64_t kMostTokens = 1 << 20;

}  // namespace

void BanterProfile::changed() const {
  static_cast<void>(engine_call("emit_changed"));
}

int64_t BanterProfile::take(const ProfileOutcome& outcome) {
  load_message_ = outcome.message;
  if (outcome.error == kOk) changed();
  return outcome.error;
}

int64_t BanterProfile::load_binary(const PackedByteArray& bytes) {
  return take(read_profile_binary(bytes.bytes(), data_));
}

int64_t BanterProfile::load_json(const std::string& text) {
  return take(read_profile_json(text, data_));
}

std::string BanterProfile::own_file() const {
  const std::string path = engine_call("get_path").to_text();
  const bool is_own = path.starts_with("res://") && path.find("::") == std::string::npos;  // else it is inside a scene
  return is_own ? path : std::string();
}

void BanterProfile::note_file() {
  if (const std::string path = own_file(); !path.empty() && file_time_ == 0) file_time_ = file_time(path);
}

void BanterProfile::refresh() {
  const std::string path = own_file();
  if (path.empty()) return;
  const int64_t time = file_time(path);
  if (time == 0 || time == file_time_) return;  // a file that is gone may come back
  if (file_time_ == 0) {
    file_time_ = time;
    return;
  }
  // Another object, since an object that is there would keep what the file does not name because it is as ever.
  constexpr int64_t kIgnore = 0;  // ResourceLoader.CACHE_MODE_IGNORE
  const Variant loaded = Variant(singleton("ResourceLoader")).call("load", path, "", kIgnore);
  const auto* const fresh = instance_of<BanterProfile>(loaded.to_object());
  if (fresh == nullptr) return;  // half written: the next reply looks again
  file_time_ = time;
  assign(data_, fresh->data_);
}

double BanterProfile::in_range(double ProfileSampling::*member, double value) {
#define BANTER_PROFILE_CLAMP(name, standard, least, most, hint) \
  if (member == &ProfileSampling::name) return value >= (least) ? std::min<double>(value, most) : (least);
  BANTER_PROFILE_REALS(BANTER_PROFILE_CLAMP)
#undef BANTER_PROFILE_CLAMP
  return value;
}

int64_t BanterProfile::in_range(int64_t ProfileSampling::*member, int64_t value) {
  if (member == &ProfileSampling::mirostat) return value >= 2 ? 2 : 0;
#define BANTER_PROFILE_CLAMP(name, standard, least, most, hint) \
  if (member == &ProfileSampling::name) return std::clamp<int64_t>(value, least, most);
  BANTER_PROFILE_WHOLES(BANTER_PROFILE_CLAMP)
#undef BANTER_PROFILE_CLAMP
  return value;
}

void BanterProfile::set_priority(int64_t value) {
  assign(data_.priority, std::clamp<int64_t>(value, 0, 7));
}

void BanterProfile::set_context_policy(int64_t value) {
  assign(data_.context_policy, std::clamp<int64_t>(value, BANTER_CONTEXT_TRIM, BANTER_CONTEXT_STOP));
}

void BanterProfile::set_context_tokens(int64_t value) {
  assign(data_.context_tokens, value <= 0 ? int64_t{0} : std::clamp<int64_t>(value, 16, kMostTokens));
}

void BanterProfile::set_reply_reserve_tokens(int64_t value) {
  assign(data_.reply_reserve_tokens, std::clamp<int64_t>(value, 0, kMostTokens));
}

Dictionary BanterProfile::logit_bias() const {
  Dictionary out;
  for (const auto& [token, value] : data_.sampling.logit_bias) out.set_at(token, value);
  return out;
}

void BanterProfile::set_logit_bias(const Dictionary& value) {
  std::vector<std::pair<int64_t, double>> bias = value.numbers();
  // A number that no token has would be another token's in the 32 bits of the written form.
  std::erase_if(bias, [](const auto& entry) { return entry.first != std::clamp<int64_t>(entry.first, 0, INT32_MAX); });
  assign(data_.sampling.logit_bias, std::move(bias));
}

void BanterProfile::register_class(Registry& registry) {
  using P = BanterProfile;
  using D = ProfileData;
  using S = ProfileSampling;
  ClassBuilder<P> profile(registry, "BanterProfile", "Resource");
  const Hint paragraphs{.hint = kHintTypeString, .text = "4/18:"};  // each a String that is edited in several lines
  profile.property("profile_name", &P::text<&D::name>, &P::set_text<&D::name>);
  profile.property("lore", &P::texts<&D::lore>, &P::set_texts<&D::lore>, paragraphs);
  profile.property("persona", &P::text<&D::persona>, &P::set_text<&D::persona>, {.hint = kHintMultiline});
  profile.property("examples", &P::texts<&D::examples>, &P::set_texts<&D::examples>, paragraphs);
  profile.property("priority", &P::priority, &P::set_priority, {.hint = kHintRange, .text = "0,7,1"});
  profile.property("stop_strings", &P::texts<&D::stop_strings>, &P::set_texts<&D::stop_strings>);
  profile.group("Context");
  profile.property("context_policy", &P::context_policy, &P::set_context_policy,
                   {.hint = kHintEnum, .text = "Trim,Summarize,Slide,Stop", .class_name = "BanterNPC.ContextPolicy"});
  profile.property("context_tokens", &P::context_tokens, &P::set_context_tokens,
                   {.hint = kHintRange, .text = "0,32768,1,or_greater"});
  profile.property("reply_reserve_tokens", &P::reply_reserve_tokens, &P::set_reply_reserve_tokens,
                   {.hint = kHintRange, .text = "0,4096,1,or_greater"});
  profile.group("Sampling");
  profile.property("seed", &P::whole<&S::seed>, &P::set_whole<&S::seed>);
#define BANTER_PROFILE_PROPERTY(name, value, least, most, shown) \
  profile.property(#name, &P::real<&S::name>, &P::set_real<&S::name>, {.hint = kHintRange, .text = shown});
  BANTER_PROFILE_REALS(BANTER_PROFILE_PROPERTY)
#undef BANTER_PROFILE_PROPERTY
#define BANTER_PROFILE_PROPERTY(name, value, least, most, shown)        \
  profile.property(#name, &P::whole<&S::name>, &P::set_whole<&S::name>, \
                   {.hint = std::string_view(shown).starts_with("Off") ? kHintEnum : kHintRange, .text = shown});
  BANTER_PROFILE_WHOLES(BANTER_PROFILE_PROPERTY)
#undef BANTER_PROFILE_PROPERTY
  profile.property("logit_bias", &P::logit_bias, &P::set_logit_bias);
  profile.property("dry_breakers", &P::dry_breakers, &P::set_dry_breakers);

  profile.method("load_binary", &P::load_binary, {"bytes"}, {}, "Error");
  profile.method("load_json", &P::load_json, {"text"}, {}, "Error");
  profile.method("to_binary", &P::to_binary);
  profile.method("get_problem", &P::problem);
  profile.method("get_load_message", &P::load_message);
}

}  // namespace banter::godot
