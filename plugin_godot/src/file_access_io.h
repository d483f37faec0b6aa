// Models inside the game: Banter's file callbacks over Godot's FileAccess, so res://, user:// and packed files work.
#pragma once

#include <banter/banter.h>

#include <cstdint>
#include <string>

namespace banter::godot {

/** Looks up what the callbacks need; main thread, before the first load. False where the engine's FileAccess is another. */
bool prepare_file_access();

/** The callbacks. Thread safety: each open file is a FileAccess object of its own, used by the thread that loads; FileAccess
 *  and the engine's list of packed files may be used from any thread. */
banter_io file_access_io();

/** Whether there is a file at a path of the engine's, "res://…", "user://…", or an absolute one. Any thread. */
bool file_exists(const std::string& path);
/** When it was changed last, in seconds; 0 where there is none, or it is inside a .pck. Any thread. */
int64_t file_time(const std::string& path);

}  // namespace banter::godot
