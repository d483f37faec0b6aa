// The written form of conversations: templates that refuse roles, models without a template, templates of the host.
#include <gtest/gtest.h>

#include "engine/test_host.h"

namespace banter::test {
namespace {

std::string ascii(const std::vector<int32_t>& tokens) {
  std::string text;
  for (const int32_t id : tokens) {
    const char* const words[] = {"th", "the", " the", "he"};
    text += id < 256 ? std::string(1, static_cast<char>(id)) : id >= 260 ? words[id - 260] : "#";
  }
  return text;
}

struct Conversation {
  Host host;
  std::vector<std::byte> bytes;
  banter_model* model = nullptr;

  explicit Conversation(const TinyModelOptions& options, const std::string& host_template = {})
      : bytes(tiny_model(options)) {
    model = host.load(bytes, [&](banter_model_config& c) {
      if (host_template.empty()) return;
      c.chat_template = host_template.data();
      c.chat_template_len = host_template.size();
    });
  }
  Outcome ask(banter_npc* npc, const std::string& text) {
    return host.finish(say(npc, text, Ask(3, kGoOn | BANTER_REQUEST_REPORT_PROMPT)));
  }
};

constexpr const char* kNoSystem =
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}{% endif %}"
    "[{{ m.role }}:{{ m.content }}]{% endfor %}{% if add_generation_prompt %}>{% endif %}";
constexpr const char* kAlternating =
    "{% for m in messages %}{% if m.role == 'system' %}{% if not loop.first %}{{ raise_exception('late system') }}"
    "{% endif %}[S:{{ m.content }}]{% else %}"
    "{% set position = loop.index0 - (1 if messages[0].role == 'system' else 0) %}"
    "{% if (m.role == 'user') != (position % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "[{{ m.role }}:{{ m.content }}]{% endif %}{% endfor %}>";
constexpr const char* kSilent =
    "{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}:{{ m.content }}]{% endif %}{% endfor %}>";
constexpr const char* kRefusesAll = "{{ raise_exception('not today') }}";

TEST(Formats, ARefusedSystemMessageIsFoldedIntoTheFirstUserTurn) {
  TinyModelOptions options;
  options.chat_template = kNoSystem;
  Conversation c(options);
  EXPECT_EQ(ascii(c.ask(c.host.npc(c.model, "I am Mira."), "Hi").prompt), "[user:I am Mira.\n\nHi]>");
  EXPECT_EQ(ascii(c.ask(c.host.npc(c.model, ""), "Hi").prompt), "[user:Hi]>");
}

TEST(Formats, ASystemMessageThatIsNotWrittenIsFoldedToo) {
  TinyModelOptions options;
  options.chat_template = kSilent;
  Conversation c(options);
  EXPECT_EQ(ascii(c.ask(c.host.npc(c.model, "I am Mira."), "Hi").prompt), "[user:I am Mira.\n\nHi]>");
}

TEST(Formats, RolesAreMadeToAlternate) {
  TinyModelOptions options;
  options.chat_template = kAlternating;
  Conversation c(options);
  banter_npc* const two = c.host.npc(c.model, "P");
  banter_npc_add_turn(two, BANTER_ROLE_ASSISTANT, "Welcome", 7);
  banter_npc_add_turn(two, BANTER_ROLE_USER, "One", 3);
  banter_npc_add_turn(two, BANTER_ROLE_SYSTEM, "It rains", 8);
  banter_npc_add_turn(two, BANTER_ROLE_USER, "Two", 3);
  EXPECT_EQ(ascii(c.ask(two, "Three").prompt),
            "[S:P][user:][assistant:Welcome][user:One\n\nIt rains\n\nTwo\n\nThree]>");
}

TEST(Formats, ARefusalIsToldInTheTemplatesWords) {
  TinyModelOptions options;
  options.chat_template = kRefusesAll;
  Conversation c(options);
  banter_npc* const npc = c.host.npc(c.model);
  const Outcome outcome = c.ask(npc, "Hi");
  EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(banter_result_class(outcome.code), BANTER_ERROR_TEMPLATE);
  EXPECT_NE(outcome.message.find("not today"), std::string::npos) << outcome.message;
  EXPECT_EQ(c.host.finish(complete(c.model, "x", Ask(3, kGoOn))).kind, BANTER_EVENT_DONE);
}

TEST(Formats, TheHostsTemplateReplacesTheModels) {
  Conversation c({}, "{{ messages[-1].content }}=");
  EXPECT_EQ(ascii(c.ask(c.host.npc(c.model, ""), "Hi").prompt), "Hi=");
}

TEST(Formats, ABrokenTemplateOfTheHostFailsTheLoad) {
  Host host;
  const auto bytes = tiny_model();
  banter_model* model = nullptr;
  const std::string broken = "{% for x in %}";
  const Outcome outcome = host.finish(host.start_load(bytes, &model, [&](banter_model_config& c) {
    c.chat_template = broken.data();
    c.chat_template_len = broken.size();
  }));
  EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(banter_result_class(outcome.code), BANTER_ERROR_TEMPLATE) << outcome.message;
}

TEST(Formats, ABrokenTemplateOfTheModelFailsOnlyTalk) {
  TinyModelOptions options;
  options.chat_template = "{% if %}";
  options.has_chatml_tokens = false;
  Conversation c(options);
  const Outcome outcome = c.ask(c.host.npc(c.model), "Hi");
  EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(banter_result_class(outcome.code), BANTER_ERROR_TEMPLATE);
  EXPECT_EQ(c.host.finish(complete(c.model, "x", Ask(3, kGoOn))).kind, BANTER_EVENT_DONE);
}

TEST(Formats, WithoutATemplateChatMlWhereTheVocabularyHasIt) {
  TinyModelOptions options;
  options.chat_template = "";
  Conversation c(options);
  EXPECT_EQ(ascii(c.ask(c.host.npc(c.model, "P"), "Hi").prompt), "#system\nP#\n#user\nHi#\n#assistant\n");
}

TEST(Formats, BaseModelsContinueAPlainScript) {
  TinyModelOptions options;
  options.chat_template = "";
  options.has_chatml_tokens = false;
  Conversation c(options);
  banter_npc* const npc = c.host.npc(c.model, "P");
  const Outcome first = c.ask(npc, "Hi");
  EXPECT_EQ(ascii(first.prompt), "P\n\nUser: Hi\nAssistant:");
  EXPECT_EQ(ascii(c.ask(npc, "Yes").prompt), "P\n\nUser: Hi\nAssistant: " + first.text + "\nUser: Yes\nAssistant:");
}

}  // namespace
}  // namespace banter::test
