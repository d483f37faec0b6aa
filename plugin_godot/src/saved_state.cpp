#include "saved_state.h"

#include <cstdint>
#include <cstring>

namespace banter::godot {
namespace {

constexpr std::string_view kMagic = "BNTRGODT";
constexpr uint32_t kVersion = 1;

template <class T>
void put(std::vector<std::byte>& out, T value) {
  for (size_t i = 0; i < sizeof(T); i++) out.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xFF));
}

void put_bytes(std::vector<std::byte>& out, const void* bytes, size_t size) {
  if (size == 0) return;
  const size_t before = out.size();
  out.resize(before + size);
  std::memcpy(out.data() + before, bytes, size);
}

/** Reads from the front of a span; false where it is too short. */
template <class T>
bool take(std::span<const std::byte>& in, T& value) {
  if (in.size() < sizeof(T)) return false;
  value = 0;
  for (size_t i = 0; i < sizeof(T); i++) value |= static_cast<T>(in[i]) << (8 * i);
  in = in.subspan(sizeof(T));
  return true;
}

bool take_turn(std::span<const std::byte>& in, Turn& turn) {
  uint32_t role = 0, size = 0;
  if (!take(in, role) || !take(in, size) || role > BANTER_ROLE_ASSISTANT || size > in.size()) return false;
  turn.role = static_cast<banter_role>(role);
  turn.text.assign(reinterpret_cast<const char*>(in.data()), size);
  in = in.subspan(size);
  return true;
}

}  // namespace

const char* name_of(banter_role role) {
  return role == BANTER_ROLE_SYSTEM ? "system" : role == BANTER_ROLE_USER ? "user" : "assistant";
}

bool role_of(std::string_view name, banter_role& out) {
  for (const banter_role role : {BANTER_ROLE_SYSTEM, BANTER_ROLE_USER, BANTER_ROLE_ASSISTANT}) {
    if (name != name_of(role)) continue;
    out = role;
    return true;
  }
  return false;
}

std::vector<std::byte> pack_state(const std::vector<Turn>& turns, std::span<const std::byte> snapshot) {
  std::vector<std::byte> out;
  put_bytes(out, kMagic.data(), kMagic.size());
  put(out, kVersion);
  put(out, static_cast<uint32_t>(turns.size()));
  for (const Turn& turn : turns) {
    put(out, static_cast<uint32_t>(turn.role));
    put(out, static_cast<uint32_t>(turn.text.size()));
    put_bytes(out, turn.text.data(), turn.text.size());
  }
  put(out, static_cast<uint64_t>(snapshot.size()));
  put_bytes(out, snapshot.data(), snapshot.size());
  return out;
}

banter_result unpack_state(std::span<const std::byte> bytes, SavedState& out) {
  out = {};
  if (bytes.size() < kMagic.size() || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    out.snapshot = bytes;
    return BANTER_OK;
  }
  bytes = bytes.subspan(kMagic.size());
  uint32_t version = 0, count = 0;
  if (!take(bytes, version)) return BANTER_ERROR_CORRUPT;
  if (version > kVersion) return BANTER_ERROR_VERSION;
  if (!take(bytes, count)) return BANTER_ERROR_CORRUPT;
  for (uint32_t i = 0; i < count;
       i++) {  // a turn has at least eight bytes, so the count cannot cost more than the bytes do
    Turn turn;
    if (!take_turn(bytes, turn)) return BANTER_ERROR_CORRUPT;
    out.turns.push_back(std::move(turn));
  }
  uint64_t size = 0;
  if (!take(bytes, size) || size != bytes.size()) return BANTER_ERROR_CORRUPT;
  out.snapshot = bytes;
  return BANTER_OK;
}

}  // namespace banter::godot
