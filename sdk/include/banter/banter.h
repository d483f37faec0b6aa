/** @file banter.h
 *  Banter: talking characters for games, from inside the game's process.
 *
 *  A game creates an engine, loads a model, creates characters, and calls banter_poll() once a frame:
 *
 *      banter_engine* engine;   banter_engine_create(BANTER_API_VERSION, NULL, &engine);
 *      banter_model* model;     banter_model_load(engine, &model_config, &model, NULL);
 *      banter_npc* mira;        banter_npc_create(model, &npc_config, &mira);
 *      banter_npc_say(mira, "Good evening!", BANTER_ZERO_TERMINATED, NULL, &request);
 *      each frame:              banter_poll(engine, events, sizeof events[0], 32, &count);
 *
 *  banter_npc_say(), banter_model_complete(), banter_cancel() and banter_poll() are made for the game thread: they take
 *  no lock, allocate nothing, and make no system call except to wake a sleeping engine. No callback of the game runs
 *  on their account, but for the log of refused arguments with BANTER_ENGINE_VALIDATE. Every request ends with exactly one
 *  terminal event (MODEL_READY, DONE, SNAPSHOT, CANCELLED, FAILED).
 *
 *  Handles may be used from any thread. A handle must not be used after the call that destroys it; destroying a model
 *  ends its characters' requests, destroying an engine ends everything in it. */
#ifndef BANTER_H
#define BANTER_H

#include "banter/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ library */

/** The interface version that the library was built with.
 *  @returns major << 16 | minor
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API uint32_t BANTER_CALL banter_api_version(void);

/** The library's version, "0.1.0".
 *  @returns a static string
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API const char* BANTER_CALL banter_version_string(void);

/** The identifier of a result code, "BANTER_ERROR_BUSY".
 *  @returns a static string; "BANTER_ERROR_UNKNOWN" for a code this version does not know
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API const char* BANTER_CALL banter_result_name(banter_result code);

/** What went wrong in this thread's latest Banter call that failed: one sentence for people.
 *  @returns zero-terminated UTF-8, borrowed until this thread's next Banter call; "" when nothing failed yet
 *  Thread safety: any thread; each has its own message.
 *  Since: 0.1.0 */
BANTER_API const char* BANTER_CALL banter_last_error_message(void);

/* ------------------------------------------------------------------ engine */

/** Fills `config` with defaults and its size.
 *  @param struct_size  sizeof *config, as the caller was compiled
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API void BANTER_CALL banter_engine_config_init(banter_engine_config* config, size_t struct_size);

/** Creates an engine and starts its thread. Returns at once: nothing is loaded yet.
 *  @param api_version  BANTER_API_VERSION, as the caller was compiled
 *  @param config       copied; NULL: defaults
 *  @param out_engine   [out] NULL on failure; release with banter_engine_destroy()
 *  @returns BANTER_OK, BANTER_ERROR_VERSION, BANTER_ERROR_INVALID_ARGUMENT, BANTER_ERROR_UNSUPPORTED (backend),
 *           BANTER_ERROR_OUT_OF_MEMORY
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_engine_create(uint32_t api_version, const banter_engine_config* config,
                                                          banter_engine** out_engine);

/** Stops the engine and frees it with all its models and characters. Requests that are still running end without
 *  further events; poll them to their end first (banter_cancel()) where the terminal events matter. Bounded: waits for
 *  at most the step or the tensor in progress. NULL is a no-op.
 *  Thread safety: one thread, while no other uses the engine or its objects.
 *  Since: 0.1.0 */
BANTER_API void BANTER_CALL banter_engine_destroy(banter_engine* engine);

/** Takes waiting events, oldest first. Made for once a frame; never blocks.
 *  @param events     [out] array of `capacity` elements, `stride` bytes apart
 *  @param stride     sizeof(banter_event) as the caller was compiled; at least the size of version 0.1's struct. Bytes
 *                    of an element that this version does not know are set to 0
 *  @param capacity   0 is allowed: only ends the life of the events of the previous poll
 *  @param out_count  [out] events written
 *  @returns BANTER_OK (also when there was nothing), BANTER_ERROR_INVALID_ARGUMENT, BANTER_ERROR_BUSY (another thread
 *           is polling)
 *  Thread safety: any thread, one at a time. Borrowed pointers of the previous poll end here.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_poll(banter_engine* engine, banter_event* events, size_t stride,
                                                 uint32_t capacity, uint32_t* out_count);

/** Sleeps until an event waits or the time is over. For tools and servers; a game thread polls instead.
 *  @param timeout_ms  0: returns at once; UINT32_MAX: no limit
 *  @returns BANTER_OK (an event waits; or, when max_events were polled at once, the engine waits for the poll that ends
 *           their life), BANTER_ERROR_NOT_FOUND (none came in time), BANTER_ERROR_INVALID_ARGUMENT
 *  Thread safety: any thread; blocks.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_wait(banter_engine* engine, uint32_t timeout_ms);

/** Asks a request to end: queued, loading, in prefill or in decode. It ends with CANCELLED within one step, unless it
 *  ended by itself before.
 *  @returns BANTER_OK, BANTER_ERROR_NOT_FOUND (ended, or never was), BANTER_ERROR_INVALID_ARGUMENT
 *  Thread safety: any thread; never blocks.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_cancel(banter_engine* engine, banter_request_id request);

/** Reads the engine's figures.
 *  @param out_statistics  struct_size set by the caller
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT
 *  Thread safety: any thread; never blocks. Figures of different fields may be a step apart.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_engine_get_statistics(banter_engine* engine,
                                                                  banter_engine_statistics* out_statistics);

/** Limits how long the engine computes in each frame of the game, so that frames keep their time. Steps are cut to fit, as
 *  far as measured costs allow; where a single step takes longer (a large model), a CPU rests between its layers and parts
 *  of its output matrix until the next frame (unless a request is to be cancelled: then it is given up, and computed anew
 *  for the others), and after a card's step following frames are left out until the average holds. Tell frames with
 *  banter_engine_begin_frame(); without, 60 a second are assumed.
 *  @param milliseconds  [0, 1000]; 0: no limit, the default
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT
 *  Thread safety: any thread; never blocks.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_engine_set_frame_budget(banter_engine* engine, float milliseconds);

/** A frame of the game begins: the engine may compute for another frame budget. Best called right after the frame's heavy
 *  work has been submitted.
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT
 *  Thread safety: any thread; never blocks, allocates nothing.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_engine_begin_frame(banter_engine* engine);

/** Leaves all but a share of the time to others: the engine's threads compute for at most `share` of the time.
 *  @param share  (0, 1]; 1: no limit, the default
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT
 *  Thread safety: any thread; never blocks.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_engine_set_cpu_share(banter_engine* engine, float share);

/** Changes how much memory weights and KV pools may take together, while characters talk: what is left beside the weights is
 *  shared among the models' KV pools in proportion to their sizes at load, which may shrink and grow. Taking memory away
 *  costs first what is cached, then idle characters' pages, then the least important replies', which are computed again
 *  later; only a conversation that is longer than the smaller pool ends: with BANTER_FINISH_CONTEXT, or, before its reply
 *  has begun, with BANTER_ERROR_KV_POOL_EXHAUSTED. Takes effect before the next step; banter_engine_statistics tells the
 *  sizes. A pool never gets smaller than a short conversation needs. What pools grew by is a further model's first, and a
 *  model that loads meanwhile is kept to the new budget, too.
 *  @param bytes  0: the pools' sizes at load, and no limit for further models
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT
 *  Thread safety: any thread; never blocks.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_engine_set_budget(banter_engine* engine, uint64_t bytes);

/** Stops and resumes computing, after at most the step in progress. While paused, requests are taken, cancelled and fail
 *  at their deadline as ever, loads go on; no tokens come.
 *  @param paused  1 or 0
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT
 *  Thread safety: any thread; never blocks.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_engine_set_paused(banter_engine* engine, uint32_t paused);

/** The same figures as one line of JSON: see docs/metrics.md for its names.
 *  @param buffer      [out] `capacity` bytes: the line, cut where it does not fit, and a terminating zero. 4 KiB hold any;
 *                     NULL with capacity 0 to ask for the length
 *  @param out_length  [out] bytes of the whole line without the zero; it is cut when this is `capacity` or more
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT
 *  Thread safety: any thread; never blocks, allocates nothing.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_engine_get_metrics_json(banter_engine* engine, char* buffer,
                                                                    size_t capacity, size_t* out_length);

/** Starts to record a timeline of steps and requests in memory that is allocated now. The newest events are kept; those of
 *  a request are some ten, those of a step one.
 *  @param max_events  16 to 16777216, of 72 bytes each. 0: 65536
 *  @returns BANTER_OK, BANTER_ERROR_STATE (a recording runs), BANTER_ERROR_INVALID_ARGUMENT, BANTER_ERROR_OUT_OF_MEMORY
 *  Thread safety: any thread; waits for the step in progress, so not for a frame that must be short.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_engine_trace_start(banter_engine* engine, uint32_t max_events);

/** Ends the recording and writes it as JSON of the Trace Event Format, which chrome://tracing and Perfetto show.
 *  @param write  receives the JSON, piece by piece, on this thread before the call returns; NULL: the recording is thrown
 *                away
 *  @returns BANTER_OK, BANTER_ERROR_STATE (no recording runs), BANTER_ERROR_IO (`write` refused; the recording is gone),
 *           BANTER_ERROR_INVALID_ARGUMENT, BANTER_ERROR_OUT_OF_MEMORY
 *  Thread safety: any thread; waits for the step in progress, allocates.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_engine_trace_stop(banter_engine* engine, banter_write_fn write,
                                                              void* user_data);

/* ------------------------------------------------------------------ model */

/** Fills `config` with defaults and its size.
 *  @param struct_size  sizeof *config, as the caller was compiled
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API void BANTER_CALL banter_model_config_init(banter_model_config* config, size_t struct_size);

/** Starts to load a model on a thread of the engine; loads go one after another, replies of other models go on. Characters may be created and spoken to at once; they wait for it.
 *  Tells LOAD_PROGRESS, then MODEL_READY, FAILED or CANCELLED.
 *  @param config       copied, but for `memory`
 *  @param out_model    [out] NULL on failure; release with banter_model_release(), also after FAILED
 *  @param out_request  [out] names the load in events and for banter_cancel(); may be NULL
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT, BANTER_ERROR_BUSY, BANTER_ERROR_OUT_OF_MEMORY
 *  Thread safety: any thread; does not block on the load.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_model_load(banter_engine* engine, const banter_model_config* config,
                                                       banter_model** out_model, banter_request_id* out_request);

/** Unloads a model: ends its load or its characters' requests (CANCELLED), frees weights and KV pool on the engine
 *  thread. Its characters' handles stay valid until they are destroyed, their requests fail. NULL is a no-op.
 *  Thread safety: any thread; does not block.
 *  Since: 0.1.0 */
BANTER_API void BANTER_CALL banter_model_release(banter_model* model);

/** Facts about a model that is ready.
 *  @param out_info  struct_size set by the caller
 *  @returns BANTER_OK, BANTER_ERROR_STATE (not ready, or failed), BANTER_ERROR_INVALID_ARGUMENT
 *  Thread safety: any thread; never blocks.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_model_get_info(banter_model* model, banter_model_info* out_info);

/** Tells what a model would need, from its file's header alone: nothing is loaded, no engine is asked.
 *  @param config     of a load: where the file is, context_tokens, kv_type; `io` is called on this thread. Its other
 *                    fields are checked and change nothing
 *  @param out_needs  struct_size set by the caller
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT, BANTER_ERROR_OUT_OF_MEMORY; of the file what FAILED of a load would
 *           tell: BANTER_ERROR_FILE_NOT_FOUND, _IO, _NOT_A_MODEL, _FILE_TRUNCATED, _CORRUPT, _MISSING_TENSOR,
 *           _UNSUPPORTED_ARCHITECTURE, _UNSUPPORTED_TYPE, _UNSUPPORTED (heads that kv_type cannot hold). INVALID_ARGUMENT also for more context_tokens than the
 *           model was trained for
 *  Thread safety: any thread; blocks while it reads.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_model_measure(const banter_model_config* config,
                                                          banter_model_needs* out_needs);

/** Tokenises text as a character's words are: control tokens spelled in it are ordinary text.
 *  @param out_tokens  [out] `capacity` ids; NULL with capacity 0 to ask for the count
 *  @param out_count   [out] tokens of the whole text, may exceed `capacity`
 *  @returns BANTER_OK, BANTER_ERROR_STATE (model not ready), BANTER_ERROR_INVALID_ARGUMENT, BANTER_ERROR_OUT_OF_MEMORY
 *  Thread safety: any thread; runs on the caller's thread and allocates.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_model_tokenize(banter_model* model, const char* text, size_t text_len,
                                                           int32_t* out_tokens, size_t capacity, size_t* out_count);

/** Continues a plain text, without a chat template and without a character.
 *  @param text         the prompt; begin-of-text is added where the model asks for it
 *  @param config       copied; NULL: defaults
 *  @param out_request  [out] 0 on failure
 *  @returns as banter_npc_say()
 *  Thread safety: any thread; never blocks, allocates nothing.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_model_complete(banter_model* model, const char* text, size_t text_len,
                                                           const banter_request_config* config,
                                                           banter_request_id* out_request);

/** Continues exactly these tokens; nothing is added.
 *  @param tokens       `token_count` ids, at least one
 *  @returns as banter_npc_say()
 *  Thread safety: any thread; never blocks, allocates nothing.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_model_complete_tokens(banter_model* model, const int32_t* tokens,
                                                                  size_t token_count,
                                                                  const banter_request_config* config,
                                                                  banter_request_id* out_request);

/* ------------------------------------------------------------------ npc */

/** Fills `config` with defaults and its size.
 *  @param struct_size  sizeof *config, as the caller was compiled
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API void BANTER_CALL banter_npc_config_init(banter_npc_config* config, size_t struct_size);
/** Fills `config` with defaults and its size.
 *  @param struct_size  sizeof *config, as the caller was compiled
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API void BANTER_CALL banter_sampling_config_init(banter_sampling_config* config, size_t struct_size);
/** Fills `config` with defaults and its size.
 *  @param struct_size  sizeof *config, as the caller was compiled
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API void BANTER_CALL banter_request_config_init(banter_request_config* config, size_t struct_size);

/** Creates a character. The model may still be loading.
 *  @param config   copied; NULL: no persona, defaults
 *  @param out_npc  [out] NULL on failure; release with banter_npc_destroy()
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT (the message names the field), BANTER_ERROR_OUT_OF_MEMORY
 *  Thread safety: any thread; does not block.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_npc_create(banter_model* model, const banter_npc_config* config,
                                                       banter_npc** out_npc);

/** Ends a character: its running requests end with CANCELLED (their event's npc is the old handle: compare, do not
 *  use), its KV pages return to the pool. NULL is a no-op.
 *  Thread safety: any thread; does not block.
 *  Since: 0.1.0 */
BANTER_API void BANTER_CALL banter_npc_destroy(banter_npc* npc);

/** The player says something; the character replies in TEXT events, then DONE. Requests of one character run one after
 *  another, in the order of the calls. What was said and the reply become turns when the reply is DONE, or CANCELLED after
 *  its first words; a request that fails, or is cancelled before, leaves the conversation as it was.
 *  @param text         what is said, 0 bytes allowed (the character speaks first or goes on); invalid UTF-8 is refused
 *  @param config       copied; NULL: defaults
 *  @param out_request  [out] 0 on failure; names the reply in events and for banter_cancel()
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT, BANTER_ERROR_BUSY (poll and try again)
 *  Thread safety: any thread; never blocks, allocates nothing.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_npc_say(banter_npc* npc, const char* text, size_t text_len,
                                                    const banter_request_config* config,
                                                    banter_request_id* out_request);

/** Adds a turn to the conversation without asking for a reply: restored history, overheard words, stage directions.
 *  Takes effect in the order of the calls on this character.
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT, BANTER_ERROR_BUSY
 *  Thread safety: any thread; never blocks, allocates nothing.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_npc_add_turn(banter_npc* npc, banter_role role, const char* text,
                                                         size_t text_len);

/** Forgets all turns; the persona stays. Takes effect in the order of the calls on this character.
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT, BANTER_ERROR_BUSY
 *  Thread safety: any thread; never blocks, allocates nothing.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_npc_reset(banter_npc* npc);

/* ------------------------------------------------------------------ profiles and snapshots */

/** Creates a character from a profile: a FlatBuffer of sdk/schema/npc_profile.fbs, made from JSON by flatc (see
 *  sdk/docs/profiles.md). As banter_npc_create() with the profile's persona, sampling and limits; its examples come before
 *  the turns, its stop strings and priority hold for requests of the character.
 *  @param profile    any bytes; copied
 *  @param user_data  comes back in this character's events; NULL: the model's
 *  @param out_npc    [out] NULL on failure; release with banter_npc_destroy()
 *  @returns BANTER_OK, BANTER_ERROR_CORRUPT (not a profile, or damaged), BANTER_ERROR_INVALID_ARGUMENT (a value out of its
 *           range: the message names the field), BANTER_ERROR_OUT_OF_MEMORY
 *  Thread safety: any thread; does not block. Allocates.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_npc_create_from_profile(banter_model* model, const void* profile,
                                                                    size_t profile_size, void* user_data,
                                                                    banter_npc** out_npc);

/** Fills `config` with defaults and its size.
 *  @param struct_size  sizeof *config, as the caller was compiled
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API void BANTER_CALL banter_save_config_init(banter_save_config* config, size_t struct_size);
/** Fills `config` with defaults and its size.
 *  @param struct_size  sizeof *config, as the caller was compiled
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API void BANTER_CALL banter_load_config_init(banter_load_config* config, size_t struct_size);

/** Saves the conversation: persona, examples and turns. A request like a reply: it takes its place among the character's
 *  requests, so that it sees what the calls before it have done, and ends with SNAPSHOT (or CANCELLED, FAILED). The event's
 *  bytes are the snapshot; store them before the next poll. statistics->cached_tokens of the event says how many tokens' KV
 *  pages are in it: with BANTER_SAVE_KV_PAGES all that are computed, in the format that the model keeps them in.
 *  @param config       copied; NULL: defaults
 *  @param out_request  [out] 0 on failure
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT, BANTER_ERROR_BUSY
 *  Thread safety: any thread; does not block.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_npc_save(banter_npc* npc, const banter_save_config* config,
                                                     banter_request_id* out_request);

/** Puts a saved conversation in the place of the character's: persona, examples and turns. Sampling, limits, stop strings
 *  and priority stay the character's. Any model will do; turns beyond what it can ever use are forgotten, oldest first. KV
 *  pages are used where model, library version, backend and page format are those that wrote them, and pages are free;
 *  else the conversation is computed again at the next reply, with the same words. A request like a reply: it ends with
 *  DONE (or CANCELLED, FAILED: then nothing has changed); the event's statistics->prompt_tokens says how many tokens' KV
 *  pages the snapshot has, cached_tokens how many are used, text why none are.
 *  @param snapshot     any bytes; copied
 *  @param config       copied; NULL: defaults
 *  @param out_request  [out] 0 on failure
 *  @returns BANTER_OK, BANTER_ERROR_INVALID_ARGUMENT, BANTER_ERROR_BUSY, BANTER_ERROR_OUT_OF_MEMORY. What is wrong with the
 *           bytes is told by FAILED: BANTER_ERROR_CORRUPT, or BANTER_ERROR_VERSION where a newer library wrote them.
 *  Thread safety: any thread; does not block. Allocates a copy of the snapshot.
 *  Since: 0.1.0 */
BANTER_API banter_result BANTER_CALL banter_npc_load(banter_npc* npc, const void* snapshot, size_t snapshot_size,
                                                     const banter_load_config* config, banter_request_id* out_request);

/* ------------------------------------------------------------------ function table */

/** Every function above, for hosts that load the library at run time. Append-only. */
typedef struct banter_api {
  uint32_t struct_size;
  uint32_t version;
  uint32_t(BANTER_CALL* api_version)(void);
  const char*(BANTER_CALL* version_string)(void);
  const char*(BANTER_CALL* result_name)(banter_result);
  const char*(BANTER_CALL* last_error_message)(void);
  void(BANTER_CALL* engine_config_init)(banter_engine_config*, size_t);
  banter_result(BANTER_CALL* engine_create)(uint32_t, const banter_engine_config*, banter_engine**);
  void(BANTER_CALL* engine_destroy)(banter_engine*);
  banter_result(BANTER_CALL* poll)(banter_engine*, banter_event*, size_t, uint32_t, uint32_t*);
  banter_result(BANTER_CALL* wait)(banter_engine*, uint32_t);
  banter_result(BANTER_CALL* cancel)(banter_engine*, banter_request_id);
  banter_result(BANTER_CALL* engine_get_statistics)(banter_engine*, banter_engine_statistics*);
  void(BANTER_CALL* model_config_init)(banter_model_config*, size_t);
  banter_result(BANTER_CALL* model_load)(banter_engine*, const banter_model_config*, banter_model**,
                                         banter_request_id*);
  void(BANTER_CALL* model_release)(banter_model*);
  banter_result(BANTER_CALL* model_get_info)(banter_model*, banter_model_info*);
  banter_result(BANTER_CALL* model_tokenize)(banter_model*, const char*, size_t, int32_t*, size_t, size_t*);
  banter_result(BANTER_CALL* model_complete)(banter_model*, const char*, size_t, const banter_request_config*,
                                             banter_request_id*);
  banter_result(BANTER_CALL* model_complete_tokens)(banter_model*, const int32_t*, size_t, const banter_request_config*,
                                                    banter_request_id*);
  void(BANTER_CALL* npc_config_init)(banter_npc_config*, size_t);
  void(BANTER_CALL* sampling_config_init)(banter_sampling_config*, size_t);
  void(BANTER_CALL* request_config_init)(banter_request_config*, size_t);
  banter_result(BANTER_CALL* npc_create)(banter_model*, const banter_npc_config*, banter_npc**);
  void(BANTER_CALL* npc_destroy)(banter_npc*);
  banter_result(BANTER_CALL* npc_say)(banter_npc*, const char*, size_t, const banter_request_config*,
                                      banter_request_id*);
  banter_result(BANTER_CALL* npc_add_turn)(banter_npc*, banter_role, const char*, size_t);
  banter_result(BANTER_CALL* npc_reset)(banter_npc*);
  banter_result(BANTER_CALL* engine_set_frame_budget)(banter_engine*, float);
  banter_result(BANTER_CALL* engine_begin_frame)(banter_engine*);
  banter_result(BANTER_CALL* engine_set_cpu_share)(banter_engine*, float);
  banter_result(BANTER_CALL* engine_set_paused)(banter_engine*, uint32_t);
  banter_result(BANTER_CALL* npc_create_from_profile)(banter_model*, const void*, size_t, void*, banter_npc**);
  void(BANTER_CALL* save_config_init)(banter_save_config*, size_t);
  void(BANTER_CALL* load_config_init)(banter_load_config*, size_t);
  banter_result(BANTER_CALL* npc_save)(banter_npc*, const banter_save_config*, banter_request_id*);
  banter_result(BANTER_CALL* npc_load)(banter_npc*, const void*, size_t, const banter_load_config*, banter_request_id*);
  banter_result(BANTER_CALL* engine_get_metrics_json)(banter_engine*, char*, size_t, size_t*);
  banter_result(BANTER_CALL* engine_trace_start)(banter_engine*, uint32_t);
  banter_result(BANTER_CALL* engine_trace_stop)(banter_engine*, banter_write_fn, void*);
  banter_result(BANTER_CALL* engine_set_budget)(banter_engine*, uint64_t);
  banter_result(BANTER_CALL* model_measure)(const banter_model_config*, banter_model_needs*);
} banter_api;

/** The function table: the one symbol a host that loads the library at run time needs.
 *  @param version  BANTER_API_VERSION, as the caller was compiled
 *  @returns a static table, or NULL when the major version differs
 *  Thread safety: any thread.
 *  Since: 0.1.0 */
BANTER_API const banter_api* BANTER_CALL banter_get_api(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
