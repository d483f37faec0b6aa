// Numbers and outside text as people read them in a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace banter::tools {

/** Bytes of the code point that begins at `at`, or 0 where none is well formed. */
size_t code_point_bytes(std::string_view text, size_t at);

/** For a terminal: one line, control characters and broken UTF-8 escaped, cut after `limit` code points. */
std::string printable(std::string_view text, size_t limit = 96);

/** "468.6 MiB". */
std::string bytes_text(uint64_t bytes);

/** "630.17 M"; exact below a million. */
std::string count_text(uint64_t count);

/** "4G", "512M", "1.5 GiB", "1000000" to bytes (multiples of 1024); nullopt for anything else. */
std::optional<uint64_t> parse_bytes(std::string_view text);

}  // namespace banter::tools
