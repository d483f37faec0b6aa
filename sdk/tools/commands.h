// The sub-commands of `banter`. Each parses its own arguments (argv[0] is the sub-command's name), returns the exit
// code, writes results to stdout and everything else to stderr.
#pragma once

int command_backends(int argc, char** argv);
int command_bench(int argc, char** argv);
int command_chat(int argc, char** argv);
int command_generate(int argc, char** argv);
int command_inspect(int argc, char** argv);
int command_logits(int argc, char** argv);
int command_perplexity(int argc, char** argv);
int command_template(int argc, char** argv);
int command_tokenize(int argc, char** argv);
