#include "file_access_io.h"

#include <memory>

#include "binding/variant.h"
#include "errors.h"

namespace banter::godot {
namespace {

// Signatures as extension_api.json gives them; the same since Godot 4.0.
constexpr int64_t kOpenHash = 1247358404, kOpenErrorHash = 166280745, kSeekHash = 1286410249, kLengthHash = 3905245786,
                  kExistsHash = 2323990056, kTimeHash = 1597066294;
constexpr int64_t kModeRead = 1;

// Set on the main thread before any load begins; the engine's method binds live as long as the engine.
struct Binds {
  GDExtensionMethodBindPtr open = nullptr, open_error = nullptr, seek = nullptr, length = nullptr, exists = nullptr,
                           time = nullptr;
};
Binds binds;

struct OpenFile {
  Variant reference;  // keeps the FileAccess alive
  GDExtensionObjectPtr file = nullptr;
  uint64_t position = 0;
};

banter_result BANTER_CALL open_file(const char* path, void** out_file, void*) {
  *out_file = nullptr;
  const Variant arguments[] = {Variant(path), Variant(kModeRead)};
  const GDExtensionConstVariantPtr pointers[] = {arguments[0].ptr(), arguments[1].ptr()};
  auto opened = std::make_unique<OpenFile>();
  GDExtensionCallError error{};
  interface().variant_destroy(opened->reference.ptr());
  interface().object_method_bind_call(binds.open, nullptr, pointers, 2, opened->reference.ptr(), &error);
  opened->file = opened->reference.to_object().pointer;
  if (error.error != GDEXTENSION_CALL_OK || opened->file == nullptr) {
    int64_t code = kFailed;  // of this thread's latest open
    interface().object_method_bind_ptrcall(binds.open_error, nullptr, nullptr, &code);
    return code == kErrFileNotFound ? BANTER_ERROR_FILE_NOT_FOUND : BANTER_ERROR_IO;
  }
  *out_file = opened.release();
  return BANTER_OK;
}

uint64_t BANTER_CALL file_size(void* file, void*) {
  int64_t length = 0;
  interface().object_method_bind_ptrcall(binds.length, static_cast<OpenFile*>(file)->file, nullptr, &length);
  return length > 0 ? static_cast<uint64_t>(length) : 0;
}

banter_result BANTER_CALL read_file(void* file, uint64_t offset, void* buffer, size_t bytes, void*) {
  auto& opened = *static_cast<OpenFile*>(file);
  if (offset != opened.position) {
    const auto position = static_cast<int64_t>(offset);
    const GDExtensionConstTypePtr arguments[] = {&position};
    interface().object_method_bind_ptrcall(binds.seek, opened.file, arguments, nullptr);
  }
  const uint64_t got = interface().file_access_get_buffer(opened.file, static_cast<uint8_t*>(buffer), bytes);
  opened.position = offset + got;
  return got == bytes ? BANTER_OK : BANTER_ERROR_IO;
}

void BANTER_CALL close_file(void* file, void*) {
  delete static_cast<OpenFile*>(file);
}

}  // namespace

bool prepare_file_access() {
  binds.open = method_bind("FileAccess", "open", kOpenHash);
  binds.open_error = method_bind("FileAccess", "get_open_error", kOpenErrorHash);
  binds.seek = method_bind("FileAccess", "seek", kSeekHash);
  binds.length = method_bind("FileAccess", "get_length", kLengthHash);
  binds.exists = method_bind("FileAccess", "file_exists", kExistsHash);
  binds.time = method_bind("FileAccess", "get_modified_time", kTimeHash);
  return binds.open != nullptr && binds.open_error != nullptr && binds.seek != nullptr && binds.length != nullptr &&
         binds.exists != nullptr && binds.time != nullptr;
}

bool file_exists(const std::string& path) {
  const String text(path);
  const GDExtensionConstTypePtr arguments[] = {text.ptr()};
  GDExtensionBool exists = 0;
  interface().object_method_bind_ptrcall(binds.exists, nullptr, arguments, &exists);
  return exists != 0;
}

int64_t file_time(const std::string& path) {
  if (!file_exists(path)) return 0;  // the engine would log an error
  const String text(path);
  const GDExtensionConstTypePtr arguments[] = {text.ptr()};
  int64_t seconds = 0;
  interface().object_method_bind_ptrcall(binds.time, nullptr, arguments, &seconds);
  return seconds;
}

banter_io file_access_io() {
  banter_io io{};
  io.struct_size = sizeof io;
  io.open = &open_file;
  io.size = &file_size;
  io.read_at = &read_file;
  io.close = &close_file;
  return io;
}

}  // namespace banter::godot
