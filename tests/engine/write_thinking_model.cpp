// Writes a small random model that thinks, for tests that need it as a file: write_thinking_model FILE.
#include <cstdio>
#include <fstream>

#include "engine/tiny_model.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: write_thinking_model FILE\n"), 2;
  banter::test::TinyModelOptions options;
  options.has_thinking_tokens = true;
  options.chat_template =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
      "{% if enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}";
  const std::vector<std::byte> bytes = banter::test::tiny_model(options);
  std::ofstream file(argv[1], std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file.fail() ? 1 : 0;
}
