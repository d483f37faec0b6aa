// What BanterNPC.save_state() gives: the history as the game sees it, and Banter's snapshot. Knows nothing of the engine.
#pragma once

#include <banter/banter.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace banter::godot {

/** One turn of a conversation. */
struct Turn {
  banter_role role = BANTER_ROLE_USER;
  std::string text;
  bool operator==(const Turn&) const = default;
};

/** "system", "user" or "assistant". */
const char* name_of(banter_role role);
/** False where the name is none of these. */
bool role_of(std::string_view name, banter_role& out);

/** The bytes of a saved state:
 *      "BNTRGODT"  8 bytes
 *      version     u32, 1                          all integers little-endian
 *      turn count  u32, then for each turn: role u32 (banter_role), size u32, text in UTF-8
 *      size        u64, then Banter's snapshot */
std::vector<std::byte> pack_state(const std::vector<Turn>& turns, std::span<const std::byte> snapshot);

/** A saved state taken apart. */
struct SavedState {
  std::vector<Turn> turns;
  std::span<const std::byte> snapshot;  // borrowed from the bytes
};

/** Takes any bytes apart. A snapshot that another host of Banter saved is taken as one without history, and so are bytes that
 *  are no state at all: banter_npc_load() refuses those.
 *  @returns BANTER_OK, BANTER_ERROR_CORRUPT, BANTER_ERROR_VERSION (a newer addon saved it) */
banter_result unpack_state(std::span<const std::byte> bytes, SavedState& out);

}  // namespace banter::godot
