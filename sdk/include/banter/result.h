/** @file result.h
 *  Result codes of every Banter call and of every FAILED event.
 *
 *  The low 8 bits are the class of an error, the bits above are its detail, so a caller may test
 *  `banter_result_class(code)` and ignore details that a later version adds. */
#ifndef BANTER_RESULT_H
#define BANTER_RESULT_H

#include <stdint.h>

/** A result code: BANTER_OK or one of the errors below. The width is fixed at 32 bits. */
typedef int32_t banter_result;

#define BANTER_DETAIL(error_class, detail) ((error_class) | ((detail) << 8))

enum {
  BANTER_OK = 0,
  /* Classes. */
  BANTER_ERROR_INVALID_ARGUMENT = 1, /**< An argument is out of its documented range. */
  BANTER_ERROR_OUT_OF_MEMORY = 2,    /**< Host or device memory, or a budget, does not suffice. */
  BANTER_ERROR_BUSY = 3,             /**< A queue is full; poll, then try again. */
  BANTER_ERROR_NOT_FOUND = 4,        /**< No such object, request or name (any more). */
  BANTER_ERROR_UNSUPPORTED = 5,      /**< Valid, but this build or model cannot do it. */
  BANTER_ERROR_IO = 6,               /**< The operating system or an I/O callback failed. */
  BANTER_ERROR_CORRUPT = 7,          /**< A file or blob breaks its format's rules. */
  BANTER_ERROR_TEMPLATE = 8,         /**< The chat template failed or refused the conversation. */
  BANTER_ERROR_CONTEXT_FULL = 9,     /**< The prompt, or the reply, does not fit the context. */
  BANTER_ERROR_CANCELLED = 10,       /**< Ended because the caller asked. */
  BANTER_ERROR_STATE = 11,           /**< Not possible now (model still loading, engine stopping). */
  BANTER_ERROR_VERSION = 12,         /**< Header and library do not match. */
  BANTER_ERROR_BACKEND = 13,         /**< The compute backend failed. */
  BANTER_ERROR_INTERNAL = 14,        /**< A fault of ours; please report it. */
  BANTER_ERROR_DEADLINE = 15,        /**< The reply could not begin in time. */

  /* Details. */
  BANTER_ERROR_FILE_NOT_FOUND = BANTER_DETAIL(BANTER_ERROR_IO, 1),
  BANTER_ERROR_FILE_TRUNCATED = BANTER_DETAIL(BANTER_ERROR_CORRUPT, 1),
  BANTER_ERROR_NOT_A_MODEL = BANTER_DETAIL(BANTER_ERROR_CORRUPT, 2),
  BANTER_ERROR_MISSING_TENSOR = BANTER_DETAIL(BANTER_ERROR_CORRUPT, 3),
  BANTER_ERROR_UNSUPPORTED_ARCHITECTURE = BANTER_DETAIL(BANTER_ERROR_UNSUPPORTED, 1),
  BANTER_ERROR_UNSUPPORTED_TYPE = BANTER_DETAIL(BANTER_ERROR_UNSUPPORTED, 2),
  BANTER_ERROR_UNSUPPORTED_TOKENIZER = BANTER_DETAIL(BANTER_ERROR_UNSUPPORTED, 3),
  BANTER_ERROR_NO_TEMPLATE = BANTER_DETAIL(BANTER_ERROR_TEMPLATE, 1),
  BANTER_ERROR_KV_POOL_EXHAUSTED = BANTER_DETAIL(BANTER_ERROR_OUT_OF_MEMORY, 1), /**< The KV pool became smaller than a
                                        prompt that was accepted before: banter_engine_set_budget(). */
  BANTER_ERROR_BUDGET_EXCEEDED = BANTER_DETAIL(BANTER_ERROR_OUT_OF_MEMORY, 2),
  BANTER_ERROR_PROMPT_TOO_LONG = BANTER_DETAIL(BANTER_ERROR_CONTEXT_FULL, 1) /**< Persona and newest turn alone do not
                                        fit the context, which is never longer than the KV pool. */
};

/** The class of a result code: its low 8 bits. */
#define banter_result_class(code) ((code)&0xFF)

#endif
