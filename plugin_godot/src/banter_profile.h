// The resource BanterProfile: who a character is and how it talks.
#pragma once

#include <string>
#include <vector>

#include "binding/class_builder.h"
#include "profile_data.h"

namespace banter::godot {

/** Main thread only. Methods and properties are documented in doc_classes/BanterProfile.xml. */
class BanterProfile final : public Instance {
 public:
  explicit BanterProfile(Object object) : Instance(object) {}
  static void register_class(Registry& registry);

  int64_t load_binary(const PackedByteArray& bytes);
  int64_t load_json(const std::string& text);
  PackedByteArray to_binary() const { return PackedByteArray(write_profile_binary(data_)); }
  /** What is wrong with it, as a sentence, or "". */
  std::string problem() const { return check_profile(data_).message; }
  std::string load_message() const { return load_message_; }
  /** Takes what its file has become since it was loaded, as a game that is being made wants it. */
  void refresh();
  /** Remembers of when its file is. */
  void note_file();

  bool is_silent_about_itself() const { return data_.persona.empty() && data_.lore.empty(); }
  const ProfileData& data() const { return data_; }

 private:
  int64_t take(const ProfileOutcome& outcome);
  /** Path of the .tres that it alone is in, or "". */
  std::string own_file() const;
  void changed() const;
  template <class Value>
  void assign(Value& member, Value value) {
    if (member == value) return;
    member = std::move(value);
    changed();
  }

  ProfileData data_;
  std::string load_message_;
  int64_t file_time_ = 0;  // of the .tres, when it was last looked at

 public:
  // Properties, one pair each.
  template <auto kMember>
  std::string text() const {
    return data_.*kMember;
  }
  template <auto kMember>
  void set_text(const std::string& value) {
    assign(data_.*kMember, value);
  }
  template <auto kMember>
  PackedStringArray texts() const {
    return PackedStringArray(data_.*kMember);
  }
  template <auto kMember>
  void set_texts(const PackedStringArray& value) {
    assign(data_.*kMember, value.texts());
  }
  template <auto kMember>
  double real() const {
    return data_.sampling.*kMember;
  }
  template <auto kMember>
  void set_real(double value) {
    assign(data_.sampling.*kMember, in_range(kMember, value));
  }
  template <auto kMember>
  int64_t whole() const {
    return data_.sampling.*kMember;
  }
  template <auto kMember>
  void set_whole(int64_t value) {
    assign(data_.sampling.*kMember, in_range(kMember, value));
  }
  int64_t priority() const { return data_.priority; }
  void set_priority(int64_t value);
  int64_t context_policy() const { return data_.context_policy; }
  void set_context_policy(int64_t value);
  int64_t context_tokens() const { return data_.context_tokens; }
  void set_context_tokens(int64_t value);
  int64_t reply_reserve_tokens() const { return data_.reply_reserve_tokens; }
  void set_reply_reserve_tokens(int64_t value);
  PackedStringArray dry_breakers() const { return PackedStringArray(data_.sampling.dry_breakers); }
  void set_dry_breakers(const PackedStringArray& value) { assign(data_.sampling.dry_breakers, value.texts()); }
  Dictionary logit_bias() const;
  void set_logit_bias(const Dictionary& value);

 private:
  static double in_range(double ProfileSampling::*member, double value);
  static int64_t in_range(int64_t ProfileSampling::*member, int64_t value);
};

}  // namespace banter::godot
