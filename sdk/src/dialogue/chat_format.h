// How a model wants a conversation written: its own template, ChatML, or a plain script for base models.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialogue/thought_splitter.h"
#include "dialogue/turn.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace banter::dialogue {

/** The written form of conversations with one model. Immutable after create().
 *
 *  In order of preference: the template that the host gave; the model's own; ChatML where the vocabulary has its
 *  tokens; else a plain script ("User: …" and "Assistant: …" lines behind the persona), which base models continue.
 *
 *  Many templates refuse a system message, or roles that do not alternate. So a conversation is tried in three shapes,
 *  and the first that the template accepts is used:
 *    1. as it is;
 *    2. neighbouring turns of one role joined by a blank line, starting with a user turn (an empty one if need be);
 *    3. as 2, with the persona (and other system turns) put before the text of the user turn that follows.
 *  A template that accepts a system message but does not write it gets shape 3 at once. */
class ChatFormat {
 public:
  /** `tokenizer` must outlive the format.
   *  @param host_template   used instead of the model's when not empty; TEMPLATE where it does not parse
   *  @param model_template  may be empty; where it does not parse, encode() says so */
  static Result<std::unique_ptr<ChatFormat>> create(const text::Tokenizer& tokenizer, std::string_view host_template,
                                                    std::string_view model_template);

  /** The prompt that asks for the assistant's next turn, begin-of-text included. `thinking` becomes the template's
   *  variables `enable_thinking` and `thinking`; undefined for kAuto, and ignored by templates without them.
   *  Errors: TEMPLATE with the template's own message where it refuses every shape. */
  Result<std::vector<text::TokenId>> encode(std::string_view persona, std::span<const Turn> turns,
                                            Thinking thinking = Thinking::kAuto) const;

  /** Control tokens that stand between turns: a reply that produces one has ended. */
  bool is_turn_border(text::TokenId id) const;
  /** The plain script's ends of a reply. */
  std::span<const std::string> end_strings() const { return end_strings_; }
  /** The reply's text starts with one space that belongs to the format, not to the reply. */
  bool drops_leading_space() const { return drops_leading_space_; }
  /** The model (or the host) has a template. */
  bool has_template() const { return template_ != nullptr; }
  /** How the model marks hidden reasoning. */
  const ThinkingTags& thinking_tags() const { return tags_; }
  /** The template has a switch for it: kOn and kOff give different prompts. */
  bool has_thinking_switch() const { return has_thinking_switch_; }
  /** The reply to this prompt, made by encode(), starts inside a thought that the template has opened. */
  bool opens_thought(const std::vector<text::TokenId>& prompt) const {
    return may_open_thought_ && ends_in_open_thought(*tokenizer_, tags_, prompt);
  }
  /** For the log: why the model's template is not used; "" when all is well. */
  const std::string& template_problem() const { return template_problem_; }

 private:
  explicit ChatFormat(const text::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  enum class Shape : uint8_t { kAsIs, kAlternating, kFolded };
  static constexpr Shape kShapes[] = {Shape::kAsIs, Shape::kAlternating, Shape::kFolded};

  static std::vector<Turn> shaped(Shape shape, std::string_view persona, std::span<const Turn> turns);
  Result<std::vector<text::Segment>> render(const std::vector<Turn>& messages, Thinking thinking) const;
  std::vector<text::Segment> script(const std::vector<Turn>& messages) const;
  void probe();
  void probe_thinking(const std::vector<Turn>& messages);

  const text::Tokenizer* tokenizer_;
  std::unique_ptr<text::ChatTemplate> template_;
  std::string bos_, eos_;
  std::vector<text::TokenId> begin_;
  std::vector<text::TokenId> borders_;  // sorted
  std::vector<std::string> end_strings_;
  std::string template_problem_;
  ThinkingTags tags_;
  bool has_thinking_switch_ = false, may_open_thought_ = false;
  bool writes_system_ = true;
  bool drops_leading_space_ = false;
};

/** Ids that the model wants before any text: begin-of-text, where it asks for it. */
std::vector<text::TokenId> begin_tokens(const text::Tokenizer& tokenizer);

}  // namespace banter::dialogue
