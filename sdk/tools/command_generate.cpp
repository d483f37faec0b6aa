// banter generate: one prompt, one answer (or, with --raw or --ids, one continuation).
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "crowd.h"
#include "engine/metrics.h"
#include "engine_session.h"

namespace {

using banter::tools::EngineSession;
using banter::tools::Reply;
using Json = nlohmann::ordered_json;

struct Options {
  banter::tools::EngineOptions engine;
  std::string prompt, system;
  std::vector<int32_t> ids;
  std::vector<std::string> stop, ban;
  uint32_t max_tokens = 256;
  banter_sampling_config sampling;
  banter::tools::ThinkingOptions thinking;
  uint32_t crowd = 0;
  bool raw = false, ignore_eos = false, json = false, parse_special = false;
};

void add_options(CLI::App& app, Options& o) {
  add_engine_options(app, o.engine);
  add_tuning_options(app, o.engine);
  app.add_option("--crowd", o.crowd, "so many others talk meanwhile; the reply is the same")
      ->check(CLI::Range(0u, 1024u))
      ->capture_default_str();
  CLI::Option* prompt =
      app.add_option("--prompt,-p", o.prompt, "what the player says, or with --raw the text to continue");
  CLI::Option* ids =
      app.add_option("--ids", o.ids, "continue exactly these token ids: 1,2,3")->delimiter(',')->excludes(prompt);
  app.add_option("--system", o.system, "persona: the system message")->excludes(ids);
  app.add_flag("--raw", o.raw, "no chat template: continue the text")->excludes(ids);
  app.add_flag("--special", o.parse_special, "with --raw: control tokens spelled in the prompt count as such");
  app.add_option("-n,--max-tokens", o.max_tokens, "longest reply in tokens; 0: until the end")->capture_default_str();
  app.add_option("--temp", o.sampling.temperature, "temperature; 0 is greedy")->capture_default_str();
  app.add_option("--seed", o.sampling.seed, "same seed, same words")->capture_default_str();
  app.add_option("--top-k", o.sampling.top_k)->capture_default_str();
  app.add_option("--top-p", o.sampling.top_p)->capture_default_str();
  app.add_option("--min-p", o.sampling.min_p)->capture_default_str();
  app.add_option("--typical", o.sampling.typical_p)->capture_default_str();
  app.add_option("--repeat-penalty", o.sampling.repetition_penalty)->capture_default_str();
  app.add_option("--presence-penalty", o.sampling.presence_penalty)->capture_default_str();
  app.add_option("--frequency-penalty", o.sampling.frequency_penalty)->capture_default_str();
  app.add_option("--dry", o.sampling.dry_multiplier, "strength of the repetition guard DRY")->capture_default_str();
  app.add_option("--xtc", o.sampling.xtc_probability)->capture_default_str();
  app.add_option("--mirostat", o.sampling.mirostat, "0 or 2")->capture_default_str();
  app.add_option("--stop", o.stop, "end before this text (may be repeated)");
  app.add_option("--ban", o.ban, "never say this text (may be repeated)");
  app.add_flag("--ignore-eos", o.ignore_eos, "go on after the model's end, to -n tokens");
  add_thinking_options(app, o.thinking);
  app.add_flag("--json", o.json, "one JSON object as the last line of stdout");
}

std::vector<const char*> pointers(const std::vector<std::string>& strings) {
  std::vector<const char*> result;
  for (const std::string& s : strings) result.push_back(s.c_str());
  return result;
}

banter_result submit(EngineSession& session, const Options& o, banter_npc** npc, banter_request_id* request) {
  const std::vector<const char*> stop = pointers(o.stop), ban = pointers(o.ban);
  banter_request_config config;
  banter_request_config_init(&config, sizeof config);
  config.max_tokens = o.max_tokens;
  config.sampling = &o.sampling;
  config.stop_strings = stop.data();
  config.stop_string_count = static_cast<uint32_t>(stop.size());
  config.banned_strings = ban.data();
  config.banned_string_count = static_cast<uint32_t>(ban.size());
  config.flags = BANTER_REQUEST_REPORT_PROMPT | (o.ignore_eos ? BANTER_REQUEST_IGNORE_END : 0);
  o.thinking.apply(config);
  if (!o.ids.empty())
    return banter_model_complete_tokens(session.model(), o.ids.data(), o.ids.size(), &config, request);
  if (o.raw) {
    if (o.parse_special) config.flags |= BANTER_REQUEST_PARSE_SPECIAL;
    return banter_model_complete(session.model(), o.prompt.data(), o.prompt.size(), &config, request);
  }
  banter_npc_config npc_config;
  banter_npc_config_init(&npc_config, sizeof npc_config);
  if (!o.system.empty()) {
    npc_config.persona = o.system.data();
    npc_config.persona_len = o.system.size();
  }
  const banter_result created = banter_npc_create(session.model(), &npc_config, npc);
  if (created != BANTER_OK) return created;
  return banter_npc_say(*npc, o.prompt.data(), o.prompt.size(), &config, request);
}

double per_second(double tokens, double ms) {
  return ms > 0 ? tokens * 1000.0 / ms : 0.0;
}

Json to_json(const Reply& reply, EngineSession& session) {
  const banter_request_statistics& s = reply.statistics;
  Json json;
  json["prompt_ids"] = reply.prompt_ids;
  json["output_ids"] = reply.output_ids;
  json["text"] = reply.text;
  if (!reply.thought.empty()) json["thought"] = reply.thought;
  json["finish_reason"] = reply.finish_reason;
  if (!reply.error.empty()) json["error"] = reply.error;
  json["timings"] = {
      {"queue_ms", s.queue_ms},
      {"ttft_ms", s.ttft_ms},
      {"itl_mean_ms", s.itl_mean_ms},
      {"itl_p99_ms", s.itl_p99_ms},
      {"cached_tokens", s.cached_tokens},
      {"prefill_tokens_per_second", per_second(s.prompt_tokens - s.cached_tokens, s.prefill_ms)},
      {"decode_tokens_per_second", per_second(s.generated_tokens > 0 ? s.generated_tokens - 1.0 : 0.0, s.decode_ms)}};
  char line[2048];
  const size_t length = banter::engine::to_json(s, line);
  if (length <= sizeof line) json["statistics"] = Json::parse(std::string_view(line, length));
  json["engine"] = Json::parse(banter::tools::metrics_json(session.engine()));
  return json;
}

}  // namespace

int command_generate(int argc, char** argv) {
  CLI::App app{"Answers one prompt with the model's chat template, or continues a text (--raw) or tokens (--ids).",
               "banter generate"};
  Options o;
  banter_sampling_config_init(&o.sampling, sizeof o.sampling);
  add_options(app, o);
  CLI11_PARSE(app, argc, argv);
  if (o.ids.empty() && o.prompt.empty()) {
    std::fprintf(stderr, "banter generate: give --prompt or --ids\n");
    return 2;
  }

  EngineSession session;
  o.engine.max_requests = std::max(256u, 2 * o.crowd);
  if (!session.open(o.engine)) return 1;
  // Half of the crowd is there before, so that the reply begins among prompts and replies in progress.
  banter::tools::Crowd crowd(session, o.sampling.seed);
  if (!crowd.join(o.crowd - o.crowd / 2)) return 1;
  session.watch_others([&](const banter_event& event) { crowd.see(event); });
  banter_npc* npc = nullptr;
  banter_request_id request = 0;
  if (submit(session, o, &npc, &request) != BANTER_OK) {
    std::fprintf(stderr, "banter generate: %s\n", banter_last_error_message());
    return 1;
  }
  if (o.thinking.show && !o.json) session.watch_thoughts(banter::tools::print_thought);
  if (!crowd.join(o.crowd / 2)) return 1;
  const Reply reply = session.finish(request, [&](const std::string& text) {
    if (o.json) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  banter_npc_destroy(npc);
  if (!reply.error.empty()) std::fprintf(stderr, "banter generate: %s\n", reply.error.c_str());
  if (crowd.failed()) return 1;
  if (o.json) {
    Json json = to_json(reply, session);
    if (!o.engine.speculate.empty()) {
      json["speculation"] = {{"drafted_tokens", reply.statistics.drafted_tokens},
                             {"accepted_tokens", reply.statistics.accepted_tokens}};
    }
    if (o.crowd > 0) json["crowd"] = {{"count", o.crowd}, {"tokens", crowd.tokens()}, {"ended", crowd.ended()}};
    std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    const banter_request_statistics& s = reply.statistics;
    std::printf("\n");
    std::fprintf(stderr, "[%u prompt tokens, first after %.0f ms; %u tokens, %.1f tokens/s; %s]\n", s.prompt_tokens,
                 s.ttft_ms, s.generated_tokens,
                 per_second(s.generated_tokens > 0 ? s.generated_tokens - 1.0 : 0.0, s.decode_ms),
                 reply.finish_reason.c_str());
  }
  return reply.error.empty() ? 0 : 1;
}
