#include "dialogue/chat_format.h"

#include <algorithm>

namespace banter::dialogue {
namespace {

using text::Segment;
using text::TokenId;

/** Hugging Face's and OpenAI's ChatML, for models whose vocabulary was trained for it but whose file lost the template. */
constexpr std::string_view kChatMl =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

constexpr std::string_view kUserLabel = "User:";
constexpr std::string_view kAssistantLabel = "Assistant:";

std::string_view role_name(Role role) {
  return role == Role::kSystem ? "system" : role == Role::kUser ? "user" : "assistant";
}

void append_paragraph(std::string& text, std::string_view more) {
  if (!text.empty() && !more.empty()) text += "\n\n";
  text += more;
}

std::string token_spelling(const text::Tokenizer& tokenizer, TokenId id) {
  if (id < 0 || static_cast<size_t>(id) >= tokenizer.size()) return {};
  return tokenizer.vocabulary().tokens[static_cast<size_t>(id)].text;
}

}  // namespace

std::vector<TokenId> begin_tokens(const text::Tokenizer& tokenizer) {
  const formats::Vocabulary& vocabulary = tokenizer.vocabulary();
  if (!vocabulary.begin.empty()) return vocabulary.begin;
  if (vocabulary.add_bos && vocabulary.bos >= 0) return {vocabulary.bos};
  return {};
}

Result<std::unique_ptr<ChatFormat>> ChatFormat::create(const text::Tokenizer& tokenizer, std::string_view host_template,
                                                       std::string_view model_template) {
  std::unique_ptr<ChatFormat> format(new ChatFormat(tokenizer));
  const formats::Vocabulary& vocabulary = tokenizer.vocabulary();
  format->bos_ = token_spelling(tokenizer, vocabulary.bos);
  format->eos_ = token_spelling(tokenizer, vocabulary.eos);
  format->begin_ = begin_tokens(tokenizer);

  const bool from_host = !host_template.empty();
  const std::string_view source = from_host ? host_template : model_template;
  if (!source.empty()) {
    auto parsed = text::ChatTemplate::parse(source);
    if (parsed) {
      format->template_ = std::move(*parsed);
    } else if (from_host) {
      return Error{parsed.error().code,
                   "The chat template given for this model is not usable: " + parsed.error().message};
    } else {
      format->template_problem_ = parsed.error().message;
    }
  }
  const bool speaks_chatml = tokenizer.find("<|im_start|>") >= 0 && tokenizer.find("<|im_end|>") >= 0;
  if (format->template_ == nullptr && speaks_chatml) {
    auto parsed = text::ChatTemplate::parse(kChatMl);
    if (!parsed) return parsed.error();
    format->template_ = std::move(*parsed);
  }
  format->tags_ = find_thinking_tags(tokenizer, source);
  if (format->template_ != nullptr) {
    format->drops_leading_space_ = vocabulary.drop_leading_space;
    format->probe();
  } else {
    format->drops_leading_space_ = true;
    format->end_strings_ = {"\n" + std::string(kUserLabel), "\n" + std::string(kAssistantLabel)};
  }
  return format;
}

/** Writes a small conversation to learn two things: whether a system message comes out, and which control tokens stand
 *  between turns. */
void ChatFormat::probe() {
  constexpr std::string_view kMark = "Oakrest";
  const std::vector<Turn> turns = {{Role::kUser, "Hello"}, {Role::kAssistant, "Hello"}, {Role::kUser, "Hello"}};
  std::vector<Turn> with_system = turns;
  with_system.insert(with_system.begin(), {Role::kSystem, std::string(kMark)});
  if (auto rendered = render(with_system, Thinking::kAuto)) {
    writes_system_ = text::join(*rendered).find(kMark) != std::string::npos;
  }
  probe_thinking(turns);
  const auto ids = encode(kMark, turns);
  if (!ids) return;
  for (const TokenId id : *ids) {
    const bool tag = id == tags_.open_id || id == tags_.close_id;
    if (tokenizer_->is_control(id) && !tag) borders_.push_back(id);
  }
  std::sort(borders_.begin(), borders_.end());
  borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
}

/** Whether the template has a switch, and whether what it writes for the reply to come may open a thought. Only its own
 *  text counts there: a player may write the tag, too. */
void ChatFormat::probe_thinking(const std::vector<Turn>& messages) {
  std::string written[3];
  for (const Thinking thinking : {Thinking::kAuto, Thinking::kOff, Thinking::kOn}) {
    const auto rendered = render(messages, thinking);
    if (!rendered) continue;
    written[static_cast<size_t>(thinking)] = text::join(*rendered);
    if (rendered->empty() || !rendered->back().trusted) continue;
    std::string end = rendered->back().text;
    while (!end.empty() && (end.back() == ' ' || end.back() == '\n')) end.pop_back();
    may_open_thought_ = may_open_thought_ || end.ends_with(tags_.open);
  }
  has_thinking_switch_ = written[static_cast<size_t>(Thinking::kOff)] != written[static_cast<size_t>(Thinking::kOn)];
}

bool ChatFormat::is_turn_border(TokenId id) const {
  return std::binary_search(borders_.begin(), borders_.end(), id);
}

std::vector<Turn> ChatFormat::shaped(Shape shape, std::string_view persona, std::span<const Turn> turns) {
  std::vector<Turn> messages;
  if (!persona.empty()) messages.push_back({Role::kSystem, std::string(persona)});
  messages.insert(messages.end(), turns.begin(), turns.end());
  if (shape == Shape::kAsIs) return messages;

  std::vector<Turn> joined;
  std::string folded;  // system text on its way to the next user turn
  for (Turn& message : messages) {
    if (message.role == Role::kSystem && (shape == Shape::kFolded || !joined.empty())) {
      append_paragraph(folded, message.text);
      continue;
    }
    const bool starts = joined.empty() || joined.back().role == Role::kSystem;
    if (starts && message.role == Role::kAssistant) joined.push_back({Role::kUser, std::exchange(folded, {})});
    if (message.role == Role::kUser && !folded.empty()) {
      std::string text = std::exchange(folded, {});
      append_paragraph(text, message.text);
      message.text = std::move(text);
    }
    if (!joined.empty() && joined.back().role == message.role) {
      append_paragraph(joined.back().text, message.text);
    } else {
      joined.push_back(std::move(message));
    }
  }
  // A reply is wanted now, so the last turn must be the user's.
  if (joined.empty() || joined.back().role != Role::kUser) {
    joined.push_back({Role::kUser, std::move(folded)});
  } else {
    append_paragraph(joined.back().text, folded);
  }
  return joined;
}

Result<std::vector<Segment>> ChatFormat::render(const std::vector<Turn>& messages, Thinking thinking) const {
  text::TemplateInput input;
  for (const Turn& message : messages) {
    input.turns.push_back({std::string(role_name(message.role)), message.text});
  }
  if (thinking != Thinking::kAuto) {
    // Qwen3, SmolLM3, GLM; DeepSeek V3.1, Granite.
    for (const char* name : {"enable_thinking", "thinking"}) {
      input.switches.emplace_back(name, thinking == Thinking::kOn);
    }
  }
  input.bos_token = bos_;
  input.eos_token = eos_;
  input.has_bos = !bos_.empty();
  input.has_eos = !eos_.empty();
  return template_->render(input);
}

std::vector<Segment> ChatFormat::script(const std::vector<Turn>& messages) const {
  std::vector<Segment> segments;
  const auto ours = [&](std::string_view text) { segments.push_back({std::string(text), true}); };
  for (const Turn& message : messages) {
    if (message.role == Role::kSystem) {
      segments.push_back({message.text, false});
      ours("\n\n");
      continue;
    }
    ours(message.role == Role::kUser ? kUserLabel : kAssistantLabel);
    ours(" ");
    segments.push_back({message.text, false});
    ours("\n");
  }
  ours(kAssistantLabel);
  return segments;
}

Result<std::vector<TokenId>> ChatFormat::encode(std::string_view persona, std::span<const Turn> turns,
                                                Thinking thinking) const {
  std::vector<Segment> segments;
  if (template_ == nullptr) {
    if (!template_problem_.empty()) {
      return Error{BANTER_ERROR_TEMPLATE, "The model's chat template cannot be used (" + template_problem_ +
                                              "); give another one in banter_model_config.chat_template."};
    }
    segments = script(shaped(Shape::kAsIs, persona, turns));
  } else {
    Error refusal;
    bool done = false;
    for (const Shape shape : kShapes) {
      if (shape != Shape::kFolded && !writes_system_ && !persona.empty()) continue;
      auto rendered = render(shaped(shape, persona, turns), thinking);
      if (rendered) {
        segments = std::move(*rendered);
        done = true;
        break;
      }
      if (refusal.message.empty()) refusal = rendered.error();
    }
    if (!done) return Error{refusal.code, "The chat template refused the conversation: " + refusal.message};
  }
  std::vector<TokenId> body;
  tokenizer_->encode(std::span<const Segment>(segments), body);
  // Most templates write begin-of-text themselves; it must stand there once.
  const bool begun = body.size() >= begin_.size() && std::equal(begin_.begin(), begin_.end(), body.begin());
  if (!begun) body.insert(body.begin(), begin_.begin(), begin_.end());
  return body;
}

}  // namespace banter::dialogue
