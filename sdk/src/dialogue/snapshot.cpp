#include "dialogue/snapshot.h"

#include <banter_schema/snapshot_generated.h>

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "dialogue/text_budget.h"

namespace banter::dialogue {
namespace {

constexpr uint32_t kFormat = 1;
constexpr size_t kPagesAlignment = 64;
constexpr size_t kChecksumBytes = sizeof(uint64_t);
constexpr size_t kPrefixBytes = sizeof(uint32_t);
constexpr size_t kMostHeaderBytes = size_t{1} << 30;  // FlatBuffers end at 2 GiB
constexpr uint32_t kDepth = 4;                        // snapshot → KV → group
constexpr uint32_t kTables = 1 << 22;
constexpr size_t kMostTurns = size_t{1} << 21;
constexpr uint32_t kMostForgotten = 1u << 30;  // so that counting on cannot overflow

size_t padded(size_t header) {
  return (header + kPagesAlignment - 1) / kPagesAlignment * kPagesAlignment;
}

// ---------------------------------------------------------------- writing

using Builder = flatbuffers::FlatBufferBuilder;
using Turns = flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<schema::Turn>>>;

flatbuffers::Offset<flatbuffers::String> write_text(Builder& builder, const std::string& text) {
  return builder.CreateString(text.data(), text.size());
}

template <class Range>
Turns write_turns(Builder& builder, const Range& turns) {
  std::vector<flatbuffers::Offset<schema::Turn>> out;
  out.reserve(turns.size());
  for (const Turn& turn : turns) {
    const auto role = turn.role == Role::kSystem ? schema::Role::System
                      : turn.role == Role::kUser ? schema::Role::User
                                                 : schema::Role::Assistant;
    out.push_back(schema::CreateTurn(builder, role, write_text(builder, turn.text)));
  }
  return builder.CreateVector(out);
}

flatbuffers::Offset<schema::Kv> write_kv(Builder& builder, const SnapshotKv& kv) {
  std::vector<flatbuffers::Offset<schema::KvGroup>> groups;
  for (const kv::StoredGroup& group : kv.pages.groups) {
    const ops::KvGeometry& g = group.geometry;
    groups.push_back(schema::CreateKvGroup(builder, static_cast<uint8_t>(g.type), g.layers, g.kv_heads, g.head_dim,
                                           group.window, g.page_tokens, group.first_page, group.page_count));
  }
  const auto layout = write_text(builder, kv.layout);
  const auto tokens = builder.CreateVector(kv.tokens);
  const auto group_vector = builder.CreateVector(groups);
  return schema::CreateKv(builder, layout, tokens, group_vector, kv.page_bytes);
}

/** A bound of the FlatBuffer's size: the builder itself would only assert. */
size_t header_bound(const Snapshot& snapshot) {
  constexpr size_t kForTurn = 64, kForAll = 4096;
  const ConversationState& c = snapshot.conversation;
  size_t bytes =
      kForAll + c.persona.size() + c.summary.size() + snapshot.model.name.size() + snapshot.model.architecture.size();
  for (const Turn& turn : c.examples) bytes += turn.text.size() + kForTurn;
  for (const Turn& turn : c.turns) bytes += turn.text.size() + kForTurn;
  if (snapshot.kv) bytes += snapshot.kv->tokens.size() * sizeof(int32_t);
  return bytes;
}

// ---------------------------------------------------------------- reading

Error damaged(const char* why) {
  return Error{BANTER_ERROR_CORRUPT, std::string("The snapshot is damaged: ") + why + "."};
}

template <class Range>
Result<void> read_turns(const flatbuffers::Vector<flatbuffers::Offset<schema::Turn>>* in, const char* field,
                        TextBudget& texts, Range& out) {
  if (in == nullptr) return {};
  if (in->size() > kMostTurns) return damaged("it has too many turns");
  for (uint32_t i = 0; i < in->size(); ++i) {
    const schema::Turn& turn = *in->Get(i);
    Role role = Role::kUser;
    switch (turn.role()) {
      case schema::Role::System:
        role = Role::kSystem;
        break;
      case schema::Role::User:
        break;
      case schema::Role::Assistant:
        role = Role::kAssistant;
        break;
      default:
        return damaged("a turn has a role that there is not");
    }
    const auto text = texts.take(turn.text(), std::string(field) + "[" + std::to_string(i) + "].text");
    if (!text) return text.error();
    out.push_back({role, std::string(*text)});
  }
  return {};
}

Result<void> read_model(const schema::Fingerprint* in, TextBudget& texts, model::Fingerprint& out) {
  if (in == nullptr) return {};
  const auto architecture = texts.take(in->architecture(), "model.architecture");
  if (!architecture) return architecture.error();
  const auto name = texts.take(in->name(), "model.name");
  if (!name) return name.error();
  out = {std::string(*architecture), std::string(*name), in->hyperparameters(), in->vocabulary(), in->weights()};
  return {};
}

/** The KV part, and where its pages are. An error says why it cannot be used. */
Result<SnapshotKv> read_kv(const schema::Kv& in, std::span<const std::byte> bytes, size_t header,
                           std::span<const std::byte>& pages) {
  const auto unusable = [](const char* why) { return Error{BANTER_ERROR_CORRUPT, why}; };
  const size_t start = padded(header);
  if (bytes.size() < start + kChecksumBytes || in.bytes() != bytes.size() - start - kChecksumBytes) {
    return unusable("the pages are cut off");
  }
  const size_t sealed = bytes.size() - kChecksumBytes;
  uint64_t checksum;
  std::memcpy(&checksum, bytes.data() + sealed, sizeof checksum);
  Hash64 hash;
  hash.add(bytes.first(sealed));
  if (checksum != hash.value()) return unusable("bytes have changed since it was saved");
  if (in.layout() == nullptr || in.tokens() == nullptr || in.groups() == nullptr ||
      in.groups()->size() > static_cast<uint32_t>(ops::kMaxKvGroups) || in.tokens()->size() > INT32_MAX / 2) {
    return unusable("its description is incomplete");
  }
  SnapshotKv kv;
  kv.layout = in.layout()->str();
  kv.tokens.assign(in.tokens()->begin(), in.tokens()->end());
  kv.pages.tokens = static_cast<int32_t>(kv.tokens.size());
  for (const schema::KvGroup* group : *in.groups()) {
    kv::StoredGroup out;
    out.geometry.type = static_cast<ops::KvType>(group->type());
    out.geometry.layers = group->layers();
    out.geometry.kv_heads = group->kv_heads();
    out.geometry.head_dim = group->head_dim();
    out.geometry.page_tokens = group->page_tokens();
    out.window = group->window();
    out.first_page = group->first_page();
    out.page_count = group->page_count();
    kv.pages.groups.push_back(out);
  }
  pages = bytes.subspan(start, sealed - start);
  kv.page_bytes = pages.size();
  return kv;
}

}  // namespace

Result<SnapshotBytes> write_snapshot(const Snapshot& snapshot) {
  const ConversationState& c = snapshot.conversation;
  if (header_bound(snapshot) > kMostHeaderBytes || std::max(c.turns.size(), c.examples.size()) > kMostTurns) {
    return Error{BANTER_ERROR_UNSUPPORTED,
                 "The conversation is larger than a snapshot can hold (1 GiB of text, 2 million turns)."};
  }
  Builder builder;
  const auto library = write_text(builder, snapshot.library_version);
  const auto persona = write_text(builder, c.persona);
  const auto summary = write_text(builder, c.summary);
  const Turns examples = write_turns(builder, c.examples);
  const Turns turns = write_turns(builder, c.turns);
  const auto architecture = write_text(builder, snapshot.model.architecture);
  const auto name = write_text(builder, snapshot.model.name);
  const auto fingerprint = schema::CreateFingerprint(builder, architecture, name, snapshot.model.hyperparameters,
                                                     snapshot.model.vocabulary, snapshot.model.weights);
  flatbuffers::Offset<schema::Kv> kv = 0;
  if (snapshot.kv) kv = write_kv(builder, *snapshot.kv);
  builder.FinishSizePrefixed(schema::CreateSnapshot(builder, kFormat, library, persona, examples, turns,
                                                    c.forgotten_turns, fingerprint, kv, summary),
                             schema::SnapshotIdentifier());

  const auto* const header = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  SnapshotBytes out;
  if (!snapshot.kv) {
    out.bytes.assign(header, header + builder.GetSize());
    return out;
  }
  const size_t start = padded(builder.GetSize());
  const uint64_t pages = snapshot.kv->page_bytes;
  if (pages > static_cast<uint64_t>(PTRDIFF_MAX) - start - kChecksumBytes) {
    return Error{BANTER_ERROR_OUT_OF_MEMORY, "The KV pages are larger than this machine's memory."};
  }
  out.bytes.resize(start + static_cast<size_t>(pages) + kChecksumBytes);
  std::memcpy(out.bytes.data(), header, builder.GetSize());
  out.pages = std::span(out.bytes).subspan(start, static_cast<size_t>(pages));
  return out;
}

void seal(SnapshotBytes& snapshot) {
  if (snapshot.pages.empty()) return;
  const size_t sealed = snapshot.bytes.size() - kChecksumBytes;
  Hash64 hash;
  hash.add(std::span<const std::byte>(snapshot.bytes).first(sealed));
  const uint64_t checksum = hash.value();
  std::memcpy(snapshot.bytes.data() + sealed, &checksum, sizeof checksum);
}

Result<SnapshotRead> read_snapshot(std::span<const std::byte> bytes) {
  uint32_t size = 0;
  if (bytes.size() >= kPrefixBytes) std::memcpy(&size, bytes.data(), sizeof size);
  if (size < flatbuffers::kFileIdentifierLength + kPrefixBytes || size > kMostHeaderBytes ||
      size > bytes.size() - kPrefixBytes) {
    return Error{BANTER_ERROR_CORRUPT, "The bytes are not a snapshot, or its beginning is cut off."};
  }
  const size_t header = kPrefixBytes + size;
  const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, header, kDepth, kTables);
  if (!schema::VerifySizePrefixedSnapshotBuffer(verifier)) {
    return Error{BANTER_ERROR_CORRUPT, "The bytes are not a snapshot of a conversation, or they are damaged."};
  }
  const schema::Snapshot& in = *schema::GetSizePrefixedSnapshot(data);
  TextBudget texts("The snapshot", header);
  SnapshotRead out;
  const auto library = texts.take(in.library_version(), "library_version");
  if (!library) return library.error();
  out.snapshot.library_version = *library;
  if (in.format() == 0) return damaged("its format has no number");
  if (in.format() > kFormat) {
    return Error{BANTER_ERROR_VERSION, "The snapshot was written by Banter " + out.snapshot.library_version +
                                           " in a format that this version does not know; update the library."};
  }
  ConversationState& c = out.snapshot.conversation;
  const auto persona = texts.take(in.persona(), "persona");
  if (!persona) return persona.error();
  c.persona = *persona;
  const auto summary = texts.take(in.summary(), "summary");
  if (!summary) return summary.error();
  c.summary = *summary;
  c.forgotten_turns = std::min(in.forgotten_turns(), kMostForgotten);
  if (Result<void> read = read_turns(in.examples(), "examples", texts, c.examples); !read) return read.error();
  if (Result<void> read = read_turns(in.turns(), "turns", texts, c.turns); !read) return read.error();
  if (Result<void> read = read_model(in.model(), texts, out.snapshot.model); !read) return read.error();
  if (in.kv() != nullptr) {
    auto kv = read_kv(*in.kv(), bytes, header, out.pages);
    if (kv) {
      out.snapshot.kv = std::move(*kv);
    } else {
      out.kv_problem = kv.error().message;
    }
  }
  return out;
}

}  // namespace banter::dialogue
