/* The public headers compile as C99, pedantically, and a C program can use them: this one is linked and run. */
#include "banter/banter.h"

#include "banter/banter.h" /* twice: include guards */

int banter_header_is_c(void) {
  banter_engine_config config;
  banter_engine* engine = 0;
  banter_event event;
  uint32_t count = 7;
  const banter_api* api = banter_get_api(BANTER_API_VERSION);
  banter_engine_config_init(&config, sizeof config);
  if (api == 0 || config.struct_size != sizeof config) return 1;
  if (api->engine_create(BANTER_API_VERSION, &config, &engine) != BANTER_OK) return 2;
  if (banter_poll(engine, &event, sizeof event, 1, &count) != BANTER_OK || count != 0) return 3;
  if (banter_result_class(BANTER_ERROR_PROMPT_TOO_LONG) != BANTER_ERROR_CONTEXT_FULL) return 4;
  banter_engine_destroy(engine);
  return 0;
}
