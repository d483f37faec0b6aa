// A game in C++: the same headers, and the wrapper banter.hpp.
#include <banter/banter.hpp>
#include <cstdio>

int main() {
  banter_engine_config config;
  banter_engine_config_init(&config, sizeof config);
  config.thread_count = 1;
  banter_engine* engine = nullptr;
  if (banter_engine_create(BANTER_API_VERSION, &config, &engine) != BANTER_OK) {
    std::printf("no engine: %s\n", banter_last_error_message());
    return 1;
  }
  banter_engine_destroy(engine);
  std::printf("banter %s works\n", banter_version_string());
}
