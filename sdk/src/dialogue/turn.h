// One utterance of a conversation.
#pragma once

#include <cstdint>
#include <string>

namespace banter::dialogue {

enum class Role : uint8_t { kSystem, kUser, kAssistant };

struct Turn {
  Role role = Role::kUser;
  std::string text;
};

}  // namespace banter::dialogue
