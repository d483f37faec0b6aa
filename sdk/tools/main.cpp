// `banter`: talk to models, look into them and measure them from the command line.
#include <cstdio>
#include <cstring>

#include "banter/banter.h"
#include "commands.h"

namespace {

struct Command {
  const char* name;
  int (*run)(int argc, char** argv);
  const char* help;
};

constexpr Command kCommands[] = {
    {"chat", command_chat, "talk to a character in the terminal"},
    {"generate", command_generate, "answer one prompt, or continue a text"},
    {"tokenize", command_tokenize, "turn JSON lines of text into token ids"},
    {"template", command_template, "render conversations with a chat template"},
    {"logits", command_logits, "write the logits at every position of a prompt"},
    {"perplexity", command_perplexity, "measure a model on a text"},
    {"inspect", command_inspect, "show what a model file holds and needs"},
    {"backends", command_backends, "show what could compute on this machine"},
    {"bench", command_bench, "measure prefill and decode speed"},
};

void print_help(std::FILE* to) {
  std::fprintf(to, "banter %s: talking characters for games\n\nusage: banter COMMAND [OPTIONS]\n\n",
               banter_version_string());
  for (const Command& command : kCommands) std::fprintf(to, "  %-11s %s\n", command.name, command.help);
  std::fprintf(to, "\n`banter COMMAND --help` explains a command's options.\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    print_help(stderr);
    return 2;
  }
  if (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0 || std::strcmp(argv[1], "help") == 0) {
    print_help(stdout);
    return 0;
  }
  if (std::strcmp(argv[1], "--version") == 0) {
    std::printf("%s\n", banter_version_string());
    return 0;
  }
  for (const Command& command : kCommands)
    if (std::strcmp(argv[1], command.name) == 0) return command.run(argc - 1, argv + 1);
  std::fprintf(stderr, "banter: there is no command \"%s\"; `banter --help` lists them\n", argv[1]);
  return 2;
}
