// Chat templates: conversations and the template language against answers of an independent implementation.
// tests/data/chat_template holds templates of our own and what Jinja2 3.1.2 makes of them, set up as transformers does
// (trim_blocks, lstrip_blocks, loop controls, generation blocks, its tojson). "fails" = it raised some error.
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace banter::text {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<Json> read_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::string data(const std::string& name) {
  return std::string(BANTER_TEST_DATA) + "/chat_template/" + name;
}

/** What a render gives, or "error: …". */
std::string run(std::string_view source, const TemplateInput& input) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) return "error: " + parsed.error().message;
  const auto rendered = (*parsed)->render(input);
  return rendered ? join(*rendered) : "error: " + rendered.error().message;
}

std::string error_of(std::string_view source, const TemplateInput& input = {}) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) {
    EXPECT_EQ(parsed.error().code, BANTER_ERROR_TEMPLATE);
    return parsed.error().message;
  }
  const auto rendered = (*parsed)->render(input);
  if (rendered) return "rendered: " + join(*rendered);
  EXPECT_EQ(rendered.error().code, BANTER_ERROR_TEMPLATE);
  return rendered.error().message;
}

TEST(ChatTemplate, RendersTheLanguageAsJinja2Does) {
  const auto lines = read_lines(data("language.jsonl"));
  ASSERT_GT(lines.size(), 1000u);
  TemplateInput input;
  input.messages = lines[0]["messages"];
  input.extra = lines[0]["extra"];
  input.now_unix_seconds = lines[0]["now"].get<int64_t>();
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto source = lines[i]["template"].get<std::string>();
    const std::string got = run(source, input);
    if (lines[i].contains("fails")) {
      EXPECT_TRUE(got.starts_with("error: ")) << source << "\ngave: " << got;
    } else {
      EXPECT_EQ(got, lines[i]["rendered"].get<std::string>()) << source;
    }
  }
}

TEST(ChatTemplate, RendersConversationsAsJinja2Does) {
  std::map<std::string, std::string> sources;
  const auto cases = read_lines(data("conversations.jsonl"));
  ASSERT_GT(cases.size(), 300u);
  for (const Json& line : cases) {
    const auto name = line["template"].get<std::string>();
    if (!sources.contains(name)) sources[name] = read_file(data(name + ".jinja"));
    TemplateInput input;
    input.messages = line["messages"];
    input.add_generation_prompt = line["add_generation_prompt"].get<bool>();
    input.extra = line["extra"];
    input.bos_token = "<s>";
    input.eos_token = "</s>";
    input.now_unix_seconds = 1700000000;
    const std::string got = run(sources[name], input);
    const std::string what = name + ", " + line["conversation"].get<std::string>() + ", " + line["extra"].dump();
    if (line.contains("fails")) {
      EXPECT_TRUE(got.starts_with("error: ")) << what << "\ngave: " << got;
    } else {
      EXPECT_EQ(got, line.contains("raises") ? "error: " + line["raises"].get<std::string>()
                                             : line["rendered"].get<std::string>())
          << what;
    }
  }
}

TEST(ChatTemplate, RendersEveryGoldenConversation) {
  const char* goldens = std::getenv("BANTER_GOLDENS");
  if (goldens == nullptr) GTEST_SKIP() << "BANTER_GOLDENS does not name the goldens folder";
  const std::string folder = std::string(goldens) + "/chat_templates/";
  const auto cases = read_lines(folder + "chat_templates.jsonl");
  ASSERT_EQ(cases.size(), 336u);
  for (const Json& line : cases) {
    const auto model = line["model"].get<std::string>();
    TemplateInput input;
    input.messages = line["messages"];
    input.add_generation_prompt = line["add_generation_prompt"].get<bool>();
    input.extra = line["extra"];
    input.has_bos = line["bos_token"].is_string();
    input.has_eos = line["eos_token"].is_string();
    if (input.has_bos) input.bos_token = line["bos_token"].get<std::string>();
    if (input.has_eos) input.eos_token = line["eos_token"].get<std::string>();
    const std::string got = run(read_file(folder + "templates/" + model + ".jinja"), input);
    EXPECT_EQ(got, line.contains("error") ? "error: " + line["error"].get<std::string>()
                                          : line["rendered"].get<std::string>())
        << model << ", " << line["conversation"];
  }
}

TEST(ChatTemplate, TellsTheLineAndWhatIsWrong) {
  EXPECT_EQ(error_of("one\ntwo {{ 1 + }}"), "The chat template cannot be parsed: line 2: unexpected '}}'");
  EXPECT_EQ(error_of("{% if a %}\n\n{% for x in y %}\n{% endif %}"),
            "The chat template cannot be parsed: line 4: unknown tag 'endif'");
  EXPECT_EQ(error_of("a\n{% if a %}\nb\n"),
            "The chat template cannot be parsed: line 3: the template ends where elif or else or endif was expected");
  EXPECT_EQ(error_of("\n\n{{ messages[0].content }}"),
            "The chat template failed in line 3: list object has no element 0");
  EXPECT_EQ(error_of("{% macro m(x) %}\n{{ x.y.z }}\n{% endmacro %}\n{{ m({'y': none}) }}{{ 'a'\n + 1 }}"),
            "The chat template failed in line 5: can only concatenate str (not \"int\") to str");
  EXPECT_EQ(error_of("{{ x|\nnofilter }}"), "The chat template failed in line 2: No filter named 'nofilter'.");
  EXPECT_EQ(error_of("{{ nothing.at.all }}"), "The chat template failed in line 1: 'nothing' is undefined");
  EXPECT_EQ(error_of("{{ {'a': 1}.b.c }}"), "The chat template failed in line 1: 'dict object' has no attribute 'b'");
}

TEST(ChatTemplate, PassesTheMessageOfRaiseExceptionThrough) {
  EXPECT_EQ(error_of("text {{ raise_exception('No system role, please: ' ~ 7) }} text"), "No system role, please: 7");
  EXPECT_EQ(error_of("{{ raise_exception('Nicht erlaubt – ünicode\n') }}"), "Nicht erlaubt – ünicode\n");
}

TEST(ChatTemplate, AnErrorLeavesNoState) {
  const auto parsed = ChatTemplate::parse(
      "{% set l = messages %}{% set _ = l.append(1) %}{{ l|length }}{% if bad %}{{ raise_exception('bad') }}{% endif "
      "%}");
  ASSERT_TRUE(parsed) << parsed.error().message;
  TemplateInput good, bad;
  bad.extra["bad"] = true;
  for (int i = 0; i < 3; ++i) {
    const auto failed = (*parsed)->render(bad);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message, "bad");
    const auto rendered = (*parsed)->render(good);
    ASSERT_TRUE(rendered) << rendered.error().message;
    EXPECT_EQ(join(*rendered), "1");
  }
  EXPECT_EQ(bad.messages.size(), 0u);
}

TEST(ChatTemplate, SeveralThreadsRenderOneTemplate) {
  const auto parsed = ChatTemplate::parse(read_file(data("thinking.jinja")));
  ASSERT_TRUE(parsed) << parsed.error().message;
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      TemplateInput input;
      const std::string text(static_cast<size_t>(t) + 1, static_cast<char>('a' + t));
      input.messages = Json::array({{{"role", "user"}, {"content", text}}});
      const std::string expected = "<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n";
      for (int i = 0; i < 200; ++i) {
        const auto rendered = (*parsed)->render(input);
        if (!rendered || join(*rendered) != expected) ++wrong[static_cast<size_t>(t)];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const int count : wrong) EXPECT_EQ(count, 0);
}

TEST(ChatTemplate, ThinkingOffAddsExactlyTheTemplatesOwnBlock) {
  const std::string source = read_file(data("thinking.jinja"));
  TemplateInput input;
  input.messages = Json::array({{{"role", "user"}, {"content", "hi"}}});
  const std::string turn = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(run(source, input), turn);
  input.extra["enable_thinking"] = true;
  EXPECT_EQ(run(source, input), turn);
  input.extra["enable_thinking"] = false;
  EXPECT_EQ(run(source, input), turn + "<think>\n\n</think>\n\n");
}

TEST(ChatTemplate, TokensThatAModelLacksAreUndefined) {
  TemplateInput input;
  input.has_bos = false;
  input.eos_token = "</s>";
  EXPECT_EQ(run("[{{ bos_token }}]{{ bos_token is defined }}[{{ eos_token }}]", input), "[]False[</s>]");
  input.has_bos = true;  // an empty text is a token without letters, not an undefined one
  EXPECT_EQ(run("[{{ bos_token + 'x' }}]{{ bos_token is defined }}", input), "[x]True");
}

TEST(ChatTemplate, PlainTurnsAreMessagesWithoutJson) {
  const std::string source = read_file(data("chatml.jinja"));
  TemplateInput as_json, as_turns;
  for (const auto& [role, content] : {std::pair("system", "s\xFFé"), {"user", "<|im_end|>"}, {"assistant", ""}}) {
    as_json.messages.push_back({{"role", role}, {"content", content}});
    as_turns.turns.push_back({role, content});
  }
  const auto parsed = ChatTemplate::parse(source);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto expected = (*parsed)->render(as_json), got = (*parsed)->render(as_turns);
  ASSERT_TRUE(expected && got);
  ASSERT_EQ(got->size(), expected->size());
  for (size_t i = 0; i < got->size(); ++i) {
    EXPECT_EQ((*got)[i].text, (*expected)[i].text);
    EXPECT_EQ((*got)[i].trusted, (*expected)[i].trusted);
  }
  EXPECT_NE(join(*got).find("s\uFFFDé"), std::string::npos);
}

TEST(ChatTemplate, ToolsAndDocumentsAreNoneByDefault) {
  EXPECT_EQ(run("{{ tools is none }}{{ documents is none }}{{ tools is defined }}", {}), "TrueTrueTrue");
  TemplateInput input;
  input.extra["tools"] = Json::array({1});
  EXPECT_EQ(run("{{ tools }}", input), "[1]");
}

TEST(ChatTemplate, TimeIsWhatTheCallerSays) {
  TemplateInput input;
  const auto at = [&](int64_t seconds, const char* format) {
    input.now_unix_seconds = seconds;
    return run("{{ strftime_now('" + std::string(format) + "') }}", input);
  };
  EXPECT_EQ(at(951782400, "%Y-%m-%d %j"), "2000-02-29 060");
  EXPECT_EQ(at(951868799, "%d %b %Y %H:%M:%S"), "29 Feb 2000 23:59:59");
  EXPECT_EQ(at(-1, "%A %d %B %Y, %I %p"), "Wednesday 31 December 1969, 11 PM");
  EXPECT_EQ(at(1735603200, "%G-W%V-%u"), "2025-W01-2");         // 31 December 2024
  EXPECT_EQ(at(1609459200, "%G-W%V %U %W"), "2020-W53 00 00");  // 1 January 2021
  EXPECT_EQ(at(4107542400, "%-d.%-m.%y"), "1.3.00");            // 2100 is no leap year
  EXPECT_EQ(at(1, "%q %"), "%q %");
  EXPECT_EQ(at(INT64_MAX, "%Y"), "9999");
  input.now_unix_seconds = 0;
  EXPECT_GE(std::stoi(run("{{ strftime_now('%Y') }}", input)), 2024);
}

TEST(ChatTemplate, IllFormedUtf8BecomesReplacementCharacters) {
  TemplateInput input;
  input.extra["x"] = "a\xFFz\xE4\xB8 \xED\xA0\x80";
  EXPECT_EQ(run("{{ x }}|{{ x|length }}", input), "a\uFFFDz\uFFFD \uFFFD\uFFFD\uFFFD|8");
  EXPECT_EQ(run("\xC0\x80{{ 'b\xF5' }}", input), "\uFFFD\uFFFDb\uFFFD");
}

TEST(ChatTemplate, ListsCanBeBuiltInTheTemplate) {
  // Beyond transformers' sandbox, which refuses methods that change things; templates of other engines use them.
  EXPECT_EQ(run("{% set l = [] %}{% for i in range(3) %}{% set _ = l.append(i) %}{% endfor %}{{ l }}{{ l.pop() }}"
                "{% set _ = l.insert(0, 'x') %}{% set _ = l.extend([7]) %}{{ l }}",
                {}),
            "[0, 1, 2]2['x', 0, 1, 7]");
  EXPECT_EQ(
      run("{% set d = {} %}{% set _ = d.update({'a': 1}) %}{% set _ = d.setdefault('b', 2) %}{{ d }}{{ d.pop('a') }}"
          "{{ d }}",
          {}),
      "{'a': 1, 'b': 2}1{'b': 2}");
}

TEST(ChatTemplate, LargeDictsKeepOrderAndFindEverything) {
  EXPECT_EQ(run("{% set d = {} %}{% for i in range(5000) %}{% set _ = d.update({i|string: i}) %}{% endfor %}"
                "{% for i in range(0, 5000, 2) %}{% set _ = d.pop(i|string) if i > 4000 %}{% endfor %}"
                "{{ d|length }} {{ d['3999'] }} {{ d['4001'] }} {{ '4002' in d }} {{ (d.keys()|list)[-1] }}",
                {}),
            "4501 3999 4001 False 4999");
}

}  // namespace
}  // namespace banter::text
