/** @file types.h
 *  Handles, enumerations, configuration structs and events of the Banter C ABI.
 *
 *  Rules that hold for every struct here:
 *  - A configuration struct starts with `struct_size`; fill it with its `_init` function, then change what you need.
 *    The library reads no more than `struct_size` bytes, gives missing fields their defaults, and refuses unknown
 *    non-zero bytes behind the fields that it knows. New fields are only ever added at the end.
 *  - 0 (or NULL) in a field means "the default" unless its comment says otherwise.
 *  - Everything that a call receives is copied before it returns.
 *  - Strings are UTF-8 with explicit lengths; a length of BANTER_ZERO_TERMINATED means that the text ends with a zero.
 */
#ifndef BANTER_TYPES_H
#define BANTER_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "banter/platform.h"
#include "banter/result.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Version of this interface: major << 16 | minor. A library refuses callers of another major. */
#define BANTER_API_VERSION 0x00000001u

/** Length that says: the text is zero-terminated. */
#define BANTER_ZERO_TERMINATED ((size_t)-1)

/** An engine: one inference thread, its workers, queues and budgets. Any number per process. */
typedef struct banter_engine banter_engine;
/** A model loaded into an engine: weights, tokenizer, chat template and the KV pool of its characters. */
typedef struct banter_model banter_model;
/** A character: one conversation with a model. */
typedef struct banter_npc banter_npc;

/** Names a request (a reply, a completion, a model load, a save or a load of a conversation). Generation-tagged: never reused, never 0.
 *  A stale id gives BANTER_ERROR_NOT_FOUND. */
typedef uint64_t banter_request_id;

/* ------------------------------------------------------------------ host services */

/** Allocates `size` bytes aligned to `alignment` (a power of two), or returns NULL.
 *  Called from any thread that calls Banter and from the engine's own threads; must be thread-safe. */
typedef void*(BANTER_CALL* banter_alloc_fn)(size_t size, size_t alignment, void* user_data);
/** Frees what banter_alloc_fn returned (never NULL). Threads: as banter_alloc_fn. */
typedef void(BANTER_CALL* banter_free_fn)(void* memory, size_t size, size_t alignment, void* user_data);

/** Severity of a log line. */
typedef int32_t banter_log_level;
enum { BANTER_LOG_DEBUG = 0, BANTER_LOG_INFO = 1, BANTER_LOG_WARNING = 2, BANTER_LOG_ERROR = 3 };

/** Receives a log line (zero-terminated UTF-8, borrowed for the call). Called from the engine's threads, several at once,
 *  and with BANTER_ENGINE_VALIDATE from the thread whose call was refused; must be thread-safe and must not call Banter. */
typedef void(BANTER_CALL* banter_log_fn)(banter_log_level level, const char* message, void* user_data);

/** Model bytes from the host's own file system (pak files, res://). All functions are called on a thread of the engine,
 *  never on a thread of the host, one call at a time for each engine; they may block, and must not call Banter. Every file
 *  opened is closed before the load's MODEL_READY, FAILED or CANCELLED. Afterwards nothing is called, but with
 *  BANTER_MODEL_SOURCE_STAYS, and in banter_engine_destroy() at the latest every file is closed. */
typedef struct banter_io {
  uint32_t struct_size;
  uint32_t flags; /**< Reserved, 0. */
  /** Opens a file by the name given in banter_model_config::path (split models: also its siblings). Stores a handle.
   *  Returns BANTER_OK, BANTER_ERROR_FILE_NOT_FOUND or BANTER_ERROR_IO. */
  banter_result(BANTER_CALL* open)(const char* path, void** out_file, void* user_data);
  /** Size of the file in bytes. */
  uint64_t(BANTER_CALL* size)(void* file, void* user_data);
  /** Reads exactly `bytes` bytes at `offset` into `buffer`; BANTER_OK or BANTER_ERROR_IO. */
  banter_result(BANTER_CALL* read_at)(void* file, uint64_t offset, void* buffer, size_t bytes, void* user_data);
  void(BANTER_CALL* close)(void* file, void* user_data);
  void* user_data;
} banter_io;

/* ------------------------------------------------------------------ engine */

/** Which device computes. */
typedef int32_t banter_backend;
enum {
  BANTER_BACKEND_AUTO = 0, /**< The fastest that works here: CUDA, or else the CPU, also when the card fails later.
                              banter_model_info tells which, and why. */
  BANTER_BACKEND_CPU = 1,
  BANTER_BACKEND_REFERENCE = 2, /**< Plain float32 loops: slow, for checking. */
  BANTER_BACKEND_CUDA = 3       /**< An NVIDIA card, through the library banter_cuda. Where that cannot be, loads end
                                   with FAILED and the reason. */
};

/** What a banter_cuda_context refers to. */
typedef int32_t banter_cuda_context_kind;
enum {
  BANTER_CUDA_CONTEXT_EXISTING = 1,     /**< A CUcontext of the game's own. */
  BANTER_CUDA_CONTEXT_D3D12_QUEUE = 2,  /**< An ID3D12CommandQueue that computing is scheduled with. */
  BANTER_CUDA_CONTEXT_VULKAN_DEVICE = 3 /**< A VkDevice, likewise: made with VK_NV_external_compute_queue and one
                                           reserved queue. */
};

/** Makes the CUDA backend compute in, or beside, a context that the game has. Without it the backend computes in the card's
 *  primary context, as all of CUDA's runtime does: right for most games. A kind that backend, driver or system cannot do
 *  fails as a missing card does, with its reason. */
typedef struct banter_cuda_context {
  uint32_t struct_size;
  banter_cuda_context_kind kind;
  void* handle;       /**< CUcontext, ID3D12CommandQueue* or VkDevice. Must live longer than the engine. */
  void* vulkan_queue; /**< VULKAN_DEVICE: the VkQueue to be scheduled with. Else NULL. */
  void* vulkan_get_device_proc_addr; /**< VULKAN_DEVICE: the game's vkGetDeviceProcAddr. Else NULL. */
} banter_cuda_context;

/** What an engine may use of the machine. See banter_engine_config_init(). */
typedef struct banter_engine_config {
  uint32_t struct_size;
  uint32_t flags; /**< BANTER_ENGINE_… bits. */
  banter_backend backend;
  int32_t thread_count; /**< Threads that compute, the engine thread included, 1 to 256. 0: physical cores, less two for
                           the game where there are more than four. Each model has its own set; one computes at a time,
                           but for a load, which goes on beside the others' replies. */
  uint64_t affinity_mask;       /**< Bit i: logical CPU i may be used. 0: any. */
  uint64_t memory_budget_bytes; /**< Weights and KV pools of all models together. 0: no limit but the machine's. */
  uint32_t max_requests;        /**< Requests that may be queued, running or not yet polled to their end, 1 to 65536.
                                   0: 256. */
  uint32_t max_events;          /**< Events that may wait for a poll, 16 to 1048576. 0: 4096. When as many wait, replies
                                   pause and their text is joined; nothing is lost. Terminal events always have room. */
  uint64_t text_buffer_bytes; /**< Storage for request text that the engine has not read yet, 4 KiB to 1 GiB. 0: 1 MiB.
                                   Also the longest text of one call, its options included. */
  int32_t step_tokens;        /**< Most tokens that one step computes, 1 to 4096. 0: 256. */
  float stream_slowdown; /**< While replies stream, a step with prompt tokens aims at this many times what their own
                                   tokens take, 1 to 1000. Less: a steadier stream, a longer wait for the one who came
                                   with the prompt. 0: 1.5. Prompts of higher priority do not heed it. */
  banter_alloc_fn alloc; /**< NULL: the C library's. Give both or neither. Used for the engine and for models' and
                                   characters' handles, request slots, text and event stores; weights, KV pools and
                                   small short-lived objects come from the C and C++ libraries. */
  banter_free_fn free;
  void* alloc_user_data;
  banter_log_fn log; /**< NULL: silent. */
  void* log_user_data;
  uint64_t swap_budget_bytes; /**< For each model: host memory for KV pages that its pool has no room for and that are
                                 cheaper to copy than to compute again. 0: none. */
  const char* cuda_library_path; /**< File of the library banter_cuda. NULL: libbanter_cuda.so beside this library, or
                                    beside the program that it is linked into. */
  int32_t cuda_device;           /**< CUDA's number of the card. -1, which _init sets: the best one. */
  uint32_t reserved1;            /**< 0. */
  const banter_cuda_context* cuda_context; /**< NULL: a context of its own. */
} banter_engine_config;

/** Bits of banter_engine_config::flags. */
enum {
  BANTER_ENGINE_NORMAL_PRIORITY = 1, /**< Do not lower the priority of the engine's threads. */
  BANTER_ENGINE_VALIDATE = 2         /**< Log every refused argument by name. */
};

/** Figures of an engine since its creation; see banter_engine_get_statistics(). */
typedef struct banter_engine_statistics {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t steps;          /**< Batches computed. */
  uint64_t prefill_tokens; /**< Prompt tokens computed. */
  uint64_t decode_tokens;  /**< Reply tokens computed. */
  uint64_t requests_submitted;
  uint64_t requests_finished; /**< Ended with DONE, CANCELLED or FAILED. */
  uint32_t requests_active;   /**< Queued or running now. */
  uint32_t models_loaded;
  uint64_t weight_bytes;
  uint64_t kv_bytes_total;    /**< KV pools of all models. */
  uint64_t kv_bytes_used;     /**< Held by running requests and idle characters; cached prefixes of nobody apart. */
  uint64_t busy_microseconds; /**< Time the engine thread spent computing. */
  uint64_t events_delayed;    /**< Times the engine waited for a poll because the event queue was full. */

  /* Speed: tokens a second of the steps that computed such. Shares of the time since the engine's creation, together 1.
     A mixed step has both prompt and reply tokens. */
  double prefill_tokens_per_second;
  double decode_tokens_per_second;
  double rows_per_step; /**< Tokens computed in a step, on average. */
  double sequences_per_step;
  double prefill_share;
  double decode_share;
  double mixed_share;
  double idle_share; /**< No step was being computed, or it rested. */
  /* The same of the last 5 to 5.5 seconds; a step counts where it ends. */
  double recent_prefill_tokens_per_second;
  double recent_decode_tokens_per_second;
  double recent_rows_per_step;
  double recent_sequences_per_step;
  double recent_prefill_share;
  double recent_decode_share;
  double recent_mixed_share;
  double recent_idle_share;
  uint64_t prefill_steps; /**< Steps with prompt tokens only. */
  uint64_t decode_steps;
  uint64_t mixed_steps;
  uint64_t kv_pages_total;
  uint64_t kv_pages_used;     /**< By requests that run. */
  uint64_t kv_pages_cached;   /**< Kept for a next reply; given up when pages run short. The others are free. */
  uint64_t kv_pages_swapped;  /**< In host memory, outside the pool. */
  uint64_t preemptions;       /**< Times a request lost its KV pages to another. */
  uint64_t recomputed_tokens; /**< Tokens computed again for that. */
  uint64_t drafted_tokens;    /**< Proposed by speculation. */
  uint64_t accepted_tokens;   /**< Of these, said. */
  uint32_t requests_queued;   /**< Of requests_active, those of which nothing was computed yet; loads included. */
  uint32_t reserved1;
} banter_engine_statistics;

/** Receives a piece of what is being written; pieces come in order, on the thread of the call that writes, and are borrowed
 *  for the call. Returns BANTER_OK, or an error to end the writing. Must not call Banter. */
typedef banter_result(BANTER_CALL* banter_write_fn)(const char* bytes, size_t size, void* user_data);

/* ------------------------------------------------------------------ model */

/** How a model's next tokens are guessed, so that it checks several in one step instead of computing them one after
 *  another. Replies are the same with and without, greedy or sampled; only their speed differs. */
typedef int32_t banter_speculation;
enum {
  BANTER_SPECULATION_NONE = 0,
  BANTER_SPECULATION_NGRAM =
      1,                       /**< What followed the same words earlier in prompt and reply: for text that repeats lore
                                   and names. Costs no memory. */
  BANTER_SPECULATION_DRAFT = 2 /**< A smaller model of the same vocabulary: banter_model_config::draft_model. */
};

/** How a model keeps the keys and values of conversations: size against exactness. */
typedef int32_t banter_kv_type;
enum {
  BANTER_KV_AUTO = 0, /**< As suits backend and model: F16, or F32 where all weights are F32. */
  BANTER_KV_F16 = 1,
  BANTER_KV_BF16 = 2,
  BANTER_KV_F32 = 3,
  BANTER_KV_INT8 = 4, /**< 0.53 of F16's bytes per token; the newest 128 tokens are kept as F16 as well. */
  BANTER_KV_INT4 = 5  /**< 0.31 of F16's bytes per token, likewise. Small models suffer: measure first. */
};

/** Where a model comes from and how much it may hold. See banter_model_config_init(). */
typedef struct banter_model_config {
  uint32_t struct_size;
  uint32_t flags;   /**< BANTER_MODEL_… bits. */
  const char* path; /**< Path of a GGUF file (UTF-8), or the name that `io` understands. */
  size_t path_len;
  const void* memory; /**< Instead of a path: the whole file in memory, which must stay until MODEL_READY, FAILED or
                         CANCELLED; longer with BANTER_MODEL_SOURCE_STAYS. */
  uint64_t memory_bytes;
  const banter_io* io;       /**< Read `path` through these callbacks; NULL: the file system. */
  const char* chat_template; /**< Jinja text used instead of the model's own; NULL: the model's. */
  size_t chat_template_len;
  uint32_t context_tokens;  /**< Most tokens of one conversation, 16 to 1048576. 0: the model's own, at most 8192. Less
                               where the KV pool holds less: banter_model_info tells. */
  uint32_t reserved0;       /**< 0. */
  uint64_t kv_budget_bytes; /**< Size of the KV pool. 0: enough for eight full conversations, at most 1 GiB. */
  void* user_data;          /**< Comes back in this model's events. */
  banter_speculation speculation; /**< How many tokens are guessed follows from how often guesses are right. */
  uint32_t reserved1;             /**< 0. */
  banter_model* draft_model; /**< Of the same engine; only with BANTER_SPECULATION_DRAFT. Speculation begins when it
                                     is ready, and ends when it is released. */
  banter_kv_type kv_type;    /**< What backend or model cannot do ends the load with FAILED, UNSUPPORTED. */
  uint32_t reserved2;        /**< 0. */
} banter_model_config;

/** Bits of banter_model_config::flags. */
enum {
  BANTER_MODEL_NO_PREFIX_SHARING =
      1,                        /**< Every character computes its whole prompt itself. For comparisons: replies are
                                        the same with and without. */
  BANTER_MODEL_SOURCE_STAYS = 2 /**< `memory`, or what `io` reads, can be read again as long as the engine lives. Then
                                        the model can go to the CPU when a card fails that BANTER_BACKEND_AUTO chose.
                                        With a path and no `io` it can in any case. */
};

/** Facts about a loaded model; see banter_model_get_info(). Strings are borrowed until the model is released. */
typedef struct banter_model_info {
  uint32_t struct_size;
  uint32_t reserved0;
  const char* name; /**< general.name of the file, or its architecture. */
  const char* architecture;
  const char* backend; /**< What computes it, e.g. "cpu/avx512-vnni". */
  uint32_t context_tokens;
  uint32_t vocabulary;
  uint64_t weight_bytes;
  uint64_t kv_pool_bytes;
  uint32_t kv_bytes_per_token; /**< Of the layers with full attention. */
  uint32_t has_chat_template;  /**< 1 or 0. */
  const char* kv_type;         /**< How keys and values are kept: "f16", "bf16", "f32", "int8" or "int4". */
  const char* backend_reason;  /**< Why it is this backend, a sentence: the card that computes, or why none does. */
  const char* warning;         /**< What is not as one would want it, as the log has it; "": nothing. */
} banter_model_info;

/** What a model file needs, told without loading it; see banter_model_measure(). Bytes, of all parts of a split file. */
typedef struct banter_model_needs {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t file_bytes;
  uint64_t weight_bytes;       /**< As they stand in the file; backends hold about as much. */
  uint64_t parameters;         /**< Numbers in the weights. */
  uint64_t step_buffer_bytes;  /**< What computing needs beside weights and conversations, held once; for steps of up
                                        to 512 tokens. */
  uint64_t kv_bytes;           /**< KV pages of one conversation of context_tokens tokens of its own; for steps of 256
                                        tokens, the default. */
  uint32_t kv_bytes_per_token; /**< Before sliding windows are full, where the model has such. */
  uint32_t context_tokens;     /**< The config's, or what a load would take. */
  uint32_t trained_context_tokens; /**< The longest conversation that the model was made for. */
  banter_kv_type kv_type;          /**< The config's; for BANTER_KV_AUTO the one that the CPU backend would take. */
} banter_model_needs;

/* ------------------------------------------------------------------ sampling */

/** How the next token is chosen. banter_sampling_config_init() fills in the defaults, given in brackets; here 0 means
 * 0. temperature 0 is greedy. Order: bias, bans, penalties, DRY, top-k, typical, top-p, min-p, XTC, temperature, draw.
 */
typedef struct banter_sampling_config {
  uint32_t struct_size;
  uint32_t flags;              /**< Reserved, 0. */
  uint64_t seed;               /**< Same seed, same words. [0] */
  float temperature;           /**< [0, 10]. [0.7] */
  int32_t top_k;               /**< 0: off. [40] */
  float top_p;                 /**< (0, 1]; 1: off. [0.95] */
  float min_p;                 /**< [0, 1). [0.05] */
  float typical_p;             /**< (0, 1]; 1: off. [1] */
  float repetition_penalty;    /**< [0.01, 10]; 1: off. [1] */
  float presence_penalty;      /**< [-10, 10]. [0] */
  float frequency_penalty;     /**< [-10, 10]. [0] */
  int32_t penalty_last_tokens; /**< Tokens the penalties look back at; -1: all. [64] */
  float dry_multiplier;        /**< [0, 100]; 0: off. [0] */
  float dry_base;              /**< [1, 10]. [1.75] */
  int32_t dry_allowed_length;  /**< [2] */
  int32_t dry_last_tokens;     /**< -1: all. [-1] */
  float xtc_probability;       /**< [0, 1]; 0: off. [0] */
  float xtc_threshold;         /**< [0, 1]. [0.1] */
  int32_t mirostat;            /**< 0 or 2. [0] */
  float mirostat_tau;          /**< [5] */
  float mirostat_eta;          /**< [0.1] */
  uint32_t logit_bias_count;
  const int32_t* logit_bias_tokens;
  const float* logit_bias_values;
  /** Strings at which a repeat ends for DRY, such as "\n" or ":", so that lines and lists may begin alike. At most 32 of
   *  1 to 40 bytes, terminated by zero; copied at the call. Each stands for the tokens that it is alone; one of a single
   *  token is never lowered itself. [none] */
  const char* const* dry_breakers;
  uint32_t dry_breaker_count;
  uint32_t reserved0; /**< 0. */
} banter_sampling_config;

/* ------------------------------------------------------------------ npc and requests */

/** Who speaks in a conversation. */
typedef int32_t banter_role;
enum { BANTER_ROLE_SYSTEM = 0, BANTER_ROLE_USER = 1, BANTER_ROLE_ASSISTANT = 2 };

/** What happens when a conversation outgrows its context. In every prompt the persona and the newest turn stay, room for the
 *  reply is kept, and a CONTEXT_TRIMMED event tells what went. */
typedef int32_t banter_context_policy;
enum {
  BANTER_CONTEXT_TRIM = 0,      /**< The oldest turns go. */
  BANTER_CONTEXT_SUMMARIZE = 1, /**< The oldest turns go; the same model sums them up in the background, at the lowest
                                   priority, and the summary stands behind the persona from the next reply on. That
                                   reply waits for it where it comes too soon. A prompt that has no room for
                                   it goes without. */
  BANTER_CONTEXT_SLIDE = 2,     /**< As TRIM; and a reply that reaches the end of the context goes on, without the older
                                   half of what follows the persona, be it the newest turn. What stays is computed
                                   again. Where fewer than some 64 tokens follow the persona it ends there. */
  BANTER_CONTEXT_STOP = 3       /**< Nothing goes: the request fails with BANTER_ERROR_CONTEXT_FULL. */
};

/** A character. See banter_npc_config_init(). */
typedef struct banter_npc_config {
  uint32_t struct_size;
  uint32_t flags;      /**< Reserved, 0. */
  const char* persona; /**< Who the character is: becomes the system message. NULL: none. */
  size_t persona_len;
  uint32_t context_tokens;       /**< Most tokens of this conversation; 0: the model's. */
  uint32_t reply_reserve_tokens; /**< Room kept for a reply when old turns are dropped. 0: 256 (at most half of the
                                    context). */
  const banter_sampling_config* sampling; /**< Default for this character's replies; NULL: the library's. */
  void* user_data;                        /**< Comes back in this character's events. */
  banter_context_policy context_policy;
  uint32_t reserved0; /**< 0. */
} banter_npc_config;

/** Whether a model that can reason does so before it speaks. What it thinks is hidden in any case: see
 *  BANTER_EVENT_THOUGHT. ON and OFF go through the chat template (its variables `enable_thinking` or `thinking`); a
 *  template without such a switch ignores them. A completion has no template: its text is split only when ON. */
typedef int32_t banter_thinking;
enum {
  BANTER_THINKING_AUTO = 0, /**< As the model's template has it. */
  BANTER_THINKING_OFF = 1,
  BANTER_THINKING_ON = 2
};

/** Options of one reply or completion. See banter_request_config_init(). */
typedef struct banter_request_config {
  uint32_t struct_size;
  uint32_t flags;                         /**< BANTER_REQUEST_… bits. */
  uint32_t max_tokens;                    /**< Longest reply. 0: until the model ends it or the context is full. */
  int32_t priority;                       /**< 0 (background) to 7 (the player waits). Higher goes first.
                                             [BANTER_PRIORITY_DEFAULT] */
  const banter_sampling_config* sampling; /**< NULL: the character's. */
  const char* const* stop_strings; /**< Zero-terminated; the reply ends before the earliest of them. At most 32 of at
                                      most 256 bytes. */
  uint32_t stop_string_count;
  uint32_t banned_string_count;
  /** Zero-terminated; never appear in the reply, which is taken back and goes on otherwise (or ends before it, with
   *  BANTER_FINISH_STOP_STRING, where it cannot). At most 64 of at most 256 bytes. */
  const char* const* banned_strings;
  const int32_t* stop_tokens; /**< Further tokens that end the reply. At most 64. */
  uint32_t stop_token_count;
  uint32_t reserved0;       /**< 0. */
  void* user_data;          /**< Comes back in this request's events; NULL: the character's. */
  uint32_t deadline_ms;     /**< The reply must begin within this time of the call, or the request fails with
                           BANTER_ERROR_DEADLINE: for words that would come too late. Among equals in priority the
                           earliest deadline goes first. 0: none. */
  uint32_t reserved1;       /**< 0. */
  banter_thinking thinking; /**< Whether the model thinks before it speaks. [AUTO] */
  uint32_t
      thinking_budget_tokens; /**< Most tokens inside thoughts; then the thought is ended and the model speaks. 0: no
                                      limit but max_tokens, which counts thoughts, too. */
} banter_request_config;

/** banter_request_config::priority: the character's, which is 4 unless its profile says otherwise. */
#define BANTER_PRIORITY_DEFAULT (-1)

/** Bits of banter_request_config::flags. */
enum {
  BANTER_REQUEST_IGNORE_END = 1,     /**< Go on after the model's end tokens, to max_tokens. */
  BANTER_REQUEST_SPECIAL_TEXT = 2,   /**< TEXT events show control tokens (for debugging). */
  BANTER_REQUEST_PARSE_SPECIAL = 4,  /**< banter_model_complete() only: control tokens in the prompt count as such. */
  BANTER_REQUEST_REPORT_PROMPT = 8,  /**< A PROMPT event tells the exact tokens the model is given (for debugging). */
  BANTER_REQUEST_REPORT_THOUGHT = 16 /**< THOUGHT events tell what the model thinks. */
};

/** How a conversation is saved. See banter_save_config_init(). */
typedef struct banter_save_config {
  uint32_t struct_size;
  uint32_t flags;  /**< BANTER_SAVE_… bits. */
  void* user_data; /**< Comes back in this request's events; NULL: the character's. */
} banter_save_config;

/** Bits of banter_save_config::flags. */
enum {
  BANTER_SAVE_KV_PAGES =
      1 /**< With the KV pages of the conversation so far, so that the first reply after a load starts
                              at once: kv_bytes_per_token (and more in layers with a window) for each token. */
};

/** How a conversation is loaded. See banter_load_config_init(). */
typedef struct banter_load_config {
  uint32_t struct_size;
  uint32_t flags;  /**< BANTER_LOAD_… bits. */
  void* user_data; /**< Comes back in this request's events; NULL: the character's. */
} banter_load_config;

/** Bits of banter_load_config::flags. */
enum {
  BANTER_LOAD_KEEP_PERSONA =
      1 /**< Load the turns only: persona and examples stay those of the character, for games whose
                                  characters were rewritten since the snapshot was made. */
};

/* ------------------------------------------------------------------ events */

/** What an event tells. */
typedef int32_t banter_event_kind;
enum {
  BANTER_EVENT_LOAD_PROGRESS = 1,   /**< progress is set. */
  BANTER_EVENT_MODEL_READY = 2,     /**< Terminal for a load. */
  BANTER_EVENT_TEXT = 3,            /**< text continues the reply: whole UTF-8 code points. */
  BANTER_EVENT_CONTEXT_TRIMMED = 4, /**< Old turns were dropped to make room: dropped_turns, dropped_tokens. */
  BANTER_EVENT_DONE = 5,            /**< Terminal: finish_reason and statistics are set. */
  BANTER_EVENT_CANCELLED = 6, /**< Terminal: statistics are set; the reply so far, if any, stays in the conversation. */
  BANTER_EVENT_FAILED = 7,    /**< Terminal: code, and text is a sentence for people. */
  BANTER_EVENT_PROMPT = 8,    /**< tokens: the whole prompt; only with BANTER_REQUEST_REPORT_PROMPT. */
  BANTER_EVENT_SNAPSHOT = 9,  /**< Terminal for banter_npc_save(): bytes and statistics are set. */
  BANTER_EVENT_THOUGHT = 10 /**< text continues the hidden reasoning, as TEXT does speech; never part of TEXT or of the
                                 conversation's turns. Only with BANTER_REQUEST_REPORT_THOUGHT; without it the events'
                                 tokens leave those of thoughts out, too. */
};

/** Why a reply ended. */
typedef int32_t banter_finish_reason;
enum {
  BANTER_FINISH_NONE = 0,
  BANTER_FINISH_END = 1, /**< The model ended it: with an end token, or with one that would begin another turn. */
  BANTER_FINISH_STOP_STRING = 2,
  BANTER_FINISH_STOP_TOKEN = 3,
  BANTER_FINISH_LENGTH = 4, /**< max_tokens reached. */
  BANTER_FINISH_CONTEXT = 5 /**< The context is full. */
};

/** Figures of one finished request. Times are in milliseconds. */
typedef struct banter_request_statistics {
  uint32_t struct_size;
  uint32_t prompt_tokens; /**< Tokens of the whole prompt. */
  uint32_t cached_tokens; /**< Of these, found in the KV cache. */
  uint32_t generated_tokens;
  double queue_ms; /**< From the call to the start of its prefill. */
  double ttft_ms;  /**< From the call to its first token. */
  double prefill_ms;
  double decode_ms;   /**< From the first token to the last. */
  double itl_mean_ms; /**< Between tokens; the quantiles are right within 4.5 %. */
  double itl_p50_ms;
  double itl_p99_ms;
  uint32_t thought_tokens;    /**< Of generated_tokens, those of thoughts and of their tags. */
  uint32_t prefilled_tokens;  /**< Prompt tokens that were computed; the prompt's less the cached ones, at the end. */
  uint32_t drafted_tokens;    /**< Reply tokens that speculation proposed; 0 while none runs. */
  uint32_t accepted_tokens;   /**< Of these, those that the model would have said. */
  uint32_t preemptions;       /**< Times its KV pages were taken for another request. */
  uint32_t recomputed_tokens; /**< Tokens computed again for that. */
} banter_request_statistics;

/** One event. Pointers are borrowed until the next banter_poll() of the same engine (or its destruction). */
typedef struct banter_event {
  banter_event_kind kind;
  banter_result code; /**< FAILED only, else BANTER_OK. */
  banter_request_id request;
  banter_model* model;
  banter_npc* npc; /**< NULL for loads and completions. */
  void* user_data;
  const char* text; /**< Zero-terminated; never NULL. DONE of banter_npc_load(): why KV pages were not used, or "". */
  size_t text_len;
  const int32_t* tokens; /**< TEXT, THOUGHT, DONE and CANCELLED: tokens generated since the request's previous event. */
  uint32_t token_count;
  banter_finish_reason finish_reason;
  float progress; /**< LOAD_PROGRESS: [0, 1]. */
  uint32_t dropped_turns;
  uint32_t dropped_tokens;
  uint32_t reserved0;
  const banter_request_statistics* statistics; /**< DONE, CANCELLED and SNAPSHOT, else NULL. */
  /* Behind here are fields that callers compiled earlier do not have: their stride ends before. */
  const void* bytes;   /**< SNAPSHOT: what to store, else NULL. */
  uint64_t byte_count; /**< Of bytes. */
} banter_event;

#ifdef __cplusplus
}
#endif

#endif
