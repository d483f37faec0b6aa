// Models inside the game: Banter's file callbacks over Godot's FileAccess, so res://, user:// and packed files work.
#pragma once

#include <banter/banter.h>

namespace banter::godot {

/** Looks up what the callbacks need; main thread, before the first load. False where the engine's FileAccess is another. */
bool prepare_file_access();

/** The callbacks. Thread safety: each open file is a FileAccess object of its own, used by the thread that loads; FileAccess
 *  and the engine's list of packed files may be used from any thread. */
banter_io file_access_io();

}  // namespace banter::godot
