/* The smallest embedding: one character, one sentence, a 60 Hz loop.
 *
 *     banter_hello_c MODEL.gguf ["What you say"] */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <time.h>

#include "banter/banter.h"

static int fail(const char* what) {
  fprintf(stderr, "hello: %s: %s\n", what, banter_last_error_message());
  return 1;
}

/* One frame of the game: takes what has come since the last. Returns 1 when the request has ended, -1 when it failed. */
static int frame(banter_engine* engine, banter_request_id request) {
  banter_event events[16];
  uint32_t count = 0, i;
  int ended = 0;
  if (banter_poll(engine, events, sizeof events[0], 16, &count) != BANTER_OK) return -1;
  for (i = 0; i < count; ++i) {
    const banter_event* e = &events[i];
    switch (e->kind) {
      case BANTER_EVENT_LOAD_PROGRESS:
        fprintf(stderr, "\rloading %3.0f %%", e->progress * 100.0);
        break;
      case BANTER_EVENT_MODEL_READY:
        fprintf(stderr, "\rready        \n");
        break;
      case BANTER_EVENT_TEXT:
        printf("%s", e->text);
        break;
      case BANTER_EVENT_FAILED:
        fprintf(stderr, "\nhello: %s (%s)\n", e->text, banter_result_name(e->code));
        return -1;
      case BANTER_EVENT_DONE:
        printf("\n");
        fprintf(stderr, "[first token after %.0f ms, then %.1f ms each]\n", e->statistics->ttft_ms,
                e->statistics->itl_mean_ms);
        if (e->request == request) ended = 1;
        break;
      default:
        break;
    }
  }
  fflush(stdout);
  return ended;
}

int main(int argc, char** argv) {
  const char* const words = argc > 2 ? argv[2] : "Good evening! Do you have a room for the night?";
  const struct timespec frame_time = {0, 16666667};
  banter_engine* engine = NULL;
  banter_model* model = NULL;
  banter_npc* mira = NULL;
  banter_model_config model_config;
  banter_npc_config npc_config;
  banter_request_config request_config;
  banter_sampling_config sampling;
  banter_request_id reply = 0;
  int state = 0;

  if (argc < 2) {
    fprintf(stderr, "usage: banter_hello_c MODEL.gguf [\"What you say\"]\n");
    return 2;
  }
  if (banter_engine_create(BANTER_API_VERSION, NULL, &engine) != BANTER_OK) return fail("no engine");

  banter_model_config_init(&model_config, sizeof model_config);
  model_config.path = argv[1];
  model_config.path_len = BANTER_ZERO_TERMINATED;
  if (banter_model_load(engine, &model_config, &model, NULL) != BANTER_OK) return fail("no model");

  banter_npc_config_init(&npc_config, sizeof npc_config);
  npc_config.persona =
      "You are Mira, the cheerful innkeeper of the Gilded Goose. A room costs 3 silver. Answer in one or "
      "two short sentences.";
  npc_config.persona_len = BANTER_ZERO_TERMINATED;
  if (banter_npc_create(model, &npc_config, &mira) != BANTER_OK) return fail("no character");

  /* The model is still loading: the character answers when it is ready. */
  banter_sampling_config_init(&sampling, sizeof sampling);
  sampling.temperature = 0.0f;
  banter_request_config_init(&request_config, sizeof request_config);
  request_config.sampling = &sampling;
  request_config.max_tokens = 100;
  if (banter_npc_say(mira, words, BANTER_ZERO_TERMINATED, &request_config, &reply) != BANTER_OK)
    return fail("no reply");

  while (state == 0) {
    state = frame(engine, reply);
    nanosleep(&frame_time, NULL);
  }
  banter_npc_destroy(mira);
  banter_model_release(model);
  banter_engine_destroy(engine);
  return state == 1 ? 0 : 1;
}
