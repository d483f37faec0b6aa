// Model files through the host's I/O callbacks.
#pragma once

#include <memory>
#include <string>

#include "banter/types.h"
#include "base/byte_source.h"
#include "formats/gguf.h"

namespace banter::engine {

/** Opens `path` with the host's callbacks (copied). The file is closed with the source. What the callbacks return is
 *  not trusted: codes that they may not return count as BANTER_ERROR_IO.
 *  Errors: FILE_NOT_FOUND, IO, each naming the path. */
Result<std::shared_ptr<ByteSource>> open_host_file(const banter_io& io, const std::string& path);

/** Opens a GGUF through the callbacks; parts of a split set are asked for by the -00001-of-0000N naming. */
Result<formats::Gguf> open_host_gguf(const banter_io& io, const std::string& path);

}  // namespace banter::engine
