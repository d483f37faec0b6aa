// banter chat: talk to one character; streams, Ctrl-C interrupts the reply, a line of figures after each.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "commands.h"
#include "engine_session.h"

namespace {

volatile bool g_interrupted = false;  // set by the signal handler, the one thing a process has only once

void on_interrupt(int) {
  if (g_interrupted) _exit(130);  // a second Ctrl-C in a row leaves
  g_interrupted = true;
}

void print_figures(const banter::tools::Reply& reply) {
  const banter_request_statistics& s = reply.statistics;
  const double rate = s.decode_ms > 0 ? (s.generated_tokens - 1) * 1000.0 / s.decode_ms : 0;
  std::fprintf(stderr, "  [%s; %u prompt tokens, %u cached; first token after %.0f ms; %u tokens, %.1f tokens/s]\n",
               reply.finish_reason.c_str(), s.prompt_tokens, s.cached_tokens, s.ttft_ms, s.generated_tokens, rate);
}

}  // namespace

int command_chat(int argc, char** argv) {
  CLI::App app{
      "Talks to a character. /reset forgets the conversation, /quit or end of input leaves, Ctrl-C interrupts a reply.",
      "banter chat"};
  banter::tools::EngineOptions options;
  std::string persona;
  banter_sampling_config sampling;
  banter_sampling_config_init(&sampling, sizeof sampling);
  uint32_t max_tokens = 0;
  banter::tools::ThinkingOptions thinking;
  add_engine_options(app, options);
  app.add_option("--persona", persona, "who the character is");
  app.add_option("-n,--max-tokens", max_tokens, "longest reply; 0: until its end")->capture_default_str();
  app.add_option("--temp", sampling.temperature, "temperature; 0 is greedy")->capture_default_str();
  app.add_option("--seed", sampling.seed)->capture_default_str();
  add_thinking_options(app, thinking);
  CLI11_PARSE(app, argc, argv);

  banter::tools::EngineSession session;
  if (!session.open(options)) return 1;
  banter_npc_config config;
  banter_npc_config_init(&config, sizeof config);
  config.persona = persona.empty() ? nullptr : persona.data();
  config.persona_len = persona.size();
  config.sampling = &sampling;
  banter_npc* npc = nullptr;
  if (banter_npc_create(session.model(), &config, &npc) != BANTER_OK) {
    std::fprintf(stderr, "banter chat: %s\n", banter_last_error_message());
    return 1;
  }
  if (thinking.show) session.watch_thoughts(banter::tools::print_thought);
  signal(SIGINT, on_interrupt);
  const bool terminal = isatty(STDIN_FILENO) != 0;
  std::string line;
  for (;;) {
    if (terminal) std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, line) || line == "/quit") break;
    if (line.empty()) continue;
    if (line == "/reset") {
      banter_npc_reset(npc);
      continue;
    }
    g_interrupted = false;
    banter_request_config request_config;
    banter_request_config_init(&request_config, sizeof request_config);
    request_config.max_tokens = max_tokens;
    thinking.apply(request_config);
    banter_request_id request = 0;
    if (banter_npc_say(npc, line.data(), line.size(), &request_config, &request) != BANTER_OK) {
      std::fprintf(stderr, "banter chat: %s\n", banter_last_error_message());
      continue;
    }
    const banter::tools::Reply reply = session.finish(
        request,
        [](const std::string& text) {
          std::fwrite(text.data(), 1, text.size(), stdout);
          std::fflush(stdout);
        },
        &g_interrupted);
    std::printf("\n");
    std::fflush(stdout);
    if (!reply.error.empty()) std::fprintf(stderr, "banter chat: %s\n", reply.error.c_str());
    print_figures(reply);
    g_interrupted = false;
  }
  banter_npc_destroy(npc);
  return 0;
}
