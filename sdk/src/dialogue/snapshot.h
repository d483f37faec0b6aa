// Conversation snapshots: the bytes of sdk/schema/snapshot.fbs, to and from what they mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "dialogue/conversation.h"
#include "kv/stored_pages.h"
#include "model/fingerprint.h"
#include "text/tokenizer.h"

namespace banter::dialogue {

/** The KV part. Read from a file it is hostile still: kv::copy_pages_in() checks it against a pool. */
struct SnapshotKv {
  std::string layout;
  std::vector<text::TokenId> tokens;
  kv::StoredPages pages;    // pages.tokens == tokens.size()
  uint64_t page_bytes = 0;  // of all pages in the file: pages.bytes(), where they say the truth
};

struct Snapshot {
  std::string library_version;
  ConversationState conversation;
  model::Fingerprint model;
  std::optional<SnapshotKv> kv;
};

/** A snapshot's bytes, complete but for the pages: these go to `pages`, then seal() makes the bytes whole. */
struct SnapshotBytes {
  std::vector<std::byte> bytes;
  std::span<std::byte> pages;  // of `bytes`; empty without a KV part
};

/** Errors: UNSUPPORTED (a conversation larger than the format can hold), OUT_OF_MEMORY (pages alone too large). */
Result<SnapshotBytes> write_snapshot(const Snapshot& snapshot);
void seal(SnapshotBytes& snapshot);

/** What was read. */
struct SnapshotRead {
  Snapshot snapshot;
  std::span<const std::byte> pages;  // of the bytes given; where snapshot.kv is set
  std::string kv_problem;            // why there is no KV part though the snapshot was written with one; "" else
};

/** Reads any bytes, 16-byte aligned; a KV part that is cut or changed is left out.
 *  Errors: CORRUPT (not a snapshot, damaged, not UTF-8), VERSION (written by a library too new to be understood). */
Result<SnapshotRead> read_snapshot(std::span<const std::byte> bytes);

}  // namespace banter::dialogue
