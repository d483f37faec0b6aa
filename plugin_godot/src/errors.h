// Banter's result codes as Godot's Error. Knows nothing of the engine.
#pragma once

#include <banter/banter.h>

#include <cstdint>

namespace banter::godot {

/** Values of Godot's enum Error that we use. */
enum : int64_t {
  kOk = 0,
  kFailed = 1,
  kErrUnavailable = 2,
  kErrUnconfigured = 3,
  kErrParameterRange = 5,
  kErrOutOfMemory = 6,
  kErrFileNotFound = 7,
  kErrFileCantRead = 14,
  kErrFileUnrecognized = 15,
  kErrFileCorrupt = 16,
  kErrFileEof = 18,
  kErrCantCreate = 20,
  kErrTimeout = 24,
  kErrCantAcquireResource = 28,
  kErrInvalidData = 30,
  kErrInvalidParameter = 31,
  kErrDoesNotExist = 33,
  kErrParseError = 43,
  kErrBusy = 44,
  kErrSkip = 45,
  kErrBug = 47,
};

/** The Error that says the same as a result code. */
inline int64_t error_of(banter_result code) {
  switch (code) {
    case BANTER_ERROR_FILE_NOT_FOUND:
      return kErrFileNotFound;
    case BANTER_ERROR_FILE_TRUNCATED:
      return kErrFileEof;
    case BANTER_ERROR_NOT_A_MODEL:
      return kErrFileUnrecognized;
    case BANTER_ERROR_NO_TEMPLATE:
      return kErrUnconfigured;
    default:
      break;
  }
  switch (banter_result_class(code)) {
    case BANTER_OK:
      return kOk;
    case BANTER_ERROR_INVALID_ARGUMENT:
      return kErrInvalidParameter;
    case BANTER_ERROR_OUT_OF_MEMORY:
      return kErrOutOfMemory;
    case BANTER_ERROR_BUSY:
      return kErrBusy;
    case BANTER_ERROR_NOT_FOUND:
      return kErrDoesNotExist;
    case BANTER_ERROR_UNSUPPORTED:
      return kErrUnavailable;
    case BANTER_ERROR_IO:
      return kErrFileCantRead;
    case BANTER_ERROR_CORRUPT:
      return kErrFileCorrupt;
    case BANTER_ERROR_TEMPLATE:
      return kErrParseError;
    case BANTER_ERROR_CONTEXT_FULL:
      return kErrParameterRange;
    case BANTER_ERROR_CANCELLED:
      return kErrSkip;
    case BANTER_ERROR_STATE:
      return kErrUnconfigured;
    case BANTER_ERROR_VERSION:
      return kErrInvalidData;
    case BANTER_ERROR_BACKEND:
      return kErrCantAcquireResource;
    case BANTER_ERROR_INTERNAL:
      return kErrBug;
    case BANTER_ERROR_DEADLINE:
      return kErrTimeout;
    default:
      return kFailed;
  }
}

}  // namespace banter::godot
