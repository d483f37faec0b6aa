/* A game in C: built against an installed Banter, or with Banter as a sub-folder of its build. */
#include <banter/banter.h>
#include <banter/version.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  banter_engine_config config;
  banter_engine* engine = NULL;
  banter_model_config model_config;
  banter_model* model = NULL;
  banter_request_id request = 0;
  banter_event event;
  uint32_t count = 0;
  int failed = 0;

  if (strcmp(banter_version_string(), BANTER_VERSION_STRING) != 0) return 1;
  if (banter_get_api(BANTER_API_VERSION) == NULL) return 2;
  banter_engine_config_init(&config, sizeof config);
  config.backend = BANTER_BACKEND_CPU;
  config.thread_count = 1;
  if (banter_engine_create(BANTER_API_VERSION, &config, &engine) != BANTER_OK) {
    printf("no engine: %s\n", banter_last_error_message());
    return 3;
  }
  /* A file that is not there: the whole way through queue, engine thread, event, and back. */
  banter_model_config_init(&model_config, sizeof model_config);
  model_config.path = "no such model.gguf";
  model_config.path_len = BANTER_ZERO_TERMINATED;
  if (banter_model_load(engine, &model_config, &model, &request) != BANTER_OK) return 4;
  while (!failed) {
    if (banter_wait(engine, 20000) != BANTER_OK) return 5;
    if (banter_poll(engine, &event, sizeof event, 1, &count) != BANTER_OK) return 6;
    if (count == 1 && event.kind == BANTER_EVENT_FAILED) {
      if (event.request != request || event.code != BANTER_ERROR_FILE_NOT_FOUND) return 7;
      printf("as it must: %s (%s)\n", banter_result_name(event.code), event.text);
      failed = 1;
    } else if (count == 1 && event.kind != BANTER_EVENT_LOAD_PROGRESS) {
      return 8;
    }
  }
  banter_model_release(model);
  banter_engine_destroy(engine);
  printf("banter %s works\n", banter_version_string());
  return 0;
}
