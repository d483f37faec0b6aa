// Spellings that structure a conversation, whatever kind of token the file calls them.
#pragma once

#include <string_view>

namespace banter::text {

/** Whether a user-defined token looks like a part of the chat format: `<|…|>`, `<｜…｜>`, `[INST]` and the like, and the
 *  tags of reasoning and tool calls. Files list such tokens as plain added tokens (DeepSeek's `<｜User｜>`, Qwen's
 *  `</think>`), yet a player who types one must not get it. */
bool is_structural_spelling(std::string_view text);

}  // namespace banter::text
