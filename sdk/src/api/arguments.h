// Checks what comes over the border and turns it into the engine's own types. Nothing here allocates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "api/thread_error.h"
#include "banter/types.h"
#include "engine/submission.h"

namespace banter::api {

/** Copies a configuration struct that may be older or newer than ours over `out`, which holds the defaults. Reads no more
 *  than its struct_size; refuses one below the header's size, and unknown bytes that are not zero. */
template <class T>
banter_result read_struct(const char* name, const T* in, T& out) noexcept {
  constexpr uint32_t kLeast = 8, kMost = 1 << 16;
  const uint32_t size = in->struct_size;
  if (size < kLeast || size > kMost) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s.struct_size is %u; fill the struct with %s_init() first.", name,
                size, name);
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(in);
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] == 0) continue;
    return fail(BANTER_ERROR_INVALID_ARGUMENT,
                "%s has fields that this version of the library does not know, and one is not 0 (byte %zu).", name, i);
  }
  std::memcpy(static_cast<void*>(&out), in, std::min<size_t>(size, sizeof(T)));
  return BANTER_OK;
}

/** Fills a caller's struct of `struct_size` bytes, which may be an older or a newer version's, with defaults. */
template <class T>
void write_defaults(const T& defaults, T* to, size_t struct_size) noexcept {
  if (to == nullptr || struct_size < sizeof(uint32_t)) return;
  std::memset(static_cast<void*>(to), 0, struct_size);
  std::memcpy(static_cast<void*>(to), &defaults, std::min(struct_size, sizeof(T)));
  const auto size = static_cast<uint32_t>(struct_size);
  std::memcpy(static_cast<void*>(to), &size, sizeof size);
}

/** Copies our figures into a struct of the caller's size, whose struct_size it keeps. */
template <class T>
banter_result write_struct(const char* name, const T& from, T* to) noexcept {
  const uint32_t size = to->struct_size;
  if (size < 8) {
    return fail(BANTER_ERROR_INVALID_ARGUMENT, "%s.struct_size is %u; set it to sizeof(%s).", name, size, name);
  }
  std::memcpy(static_cast<void*>(to), &from, std::min<size_t>(size, sizeof(T)));
  to->struct_size = size;
  return BANTER_OK;
}

bool is_valid_utf8(std::string_view text) noexcept;

/** A text argument: resolves BANTER_ZERO_TERMINATED, refuses NULL with a length and invalid UTF-8. */
banter_result read_text(const char* name, const char* text, size_t length, std::string_view& out) noexcept;

/** The parts of a sampling config; spans borrow the caller's arrays. */
struct Sampling {
  engine::SamplingSettings settings;
  std::span<const int32_t> bias_tokens;
  std::span<const float> bias_values;
  std::span<const char* const> dry_breakers;
};
/** @param name  what messages call the struct */
banter_result read_sampling(const banter_sampling_config* config, Sampling& out,
                            const char* name = "banter_sampling_config") noexcept;
/** The same, into what carries a request or a character to the engine. */
template <class Target>
banter_result read_sampling_into(const banter_sampling_config* config, Target& out,
                                 const char* name = "banter_sampling_config") noexcept {
  Sampling sampling;
  if (const banter_result code = read_sampling(config, sampling, name)) return code;
  out.has_sampling = true;
  out.sampling = sampling.settings;
  out.bias_tokens = sampling.bias_tokens;
  out.bias_values = sampling.bias_values;
  out.dry_breakers = sampling.dry_breakers;
  return BANTER_OK;
}

/** Fills in everything of `out` that a request config says; NULL: the defaults. `out` borrows the caller's arrays.
 *  @param allowed_flags  BANTER_REQUEST_… bits that make sense for this call */
banter_result read_request(const banter_request_config* config, uint32_t allowed_flags,
                           engine::Submission& out) noexcept;

}  // namespace banter::api
