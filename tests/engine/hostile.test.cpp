// A hostile world: files that break off, callbacks that fail. The engine tells, and goes on.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/test_host.h"
#include "support/gguf_writer.h"
#include "support/temp_folder.h"

namespace banter::test {
namespace {

/** A game's file system in memory, in which the n-th read fails. */
struct Archive {
  std::map<std::string, std::vector<std::byte>> files;
  int reads = 0, opened = 0, closed = 0;
  int fail_at = -1;
  banter_result open_code = BANTER_OK;
  std::thread::id game = std::this_thread::get_id();
  bool on_game_thread = false;

  banter_io io() {
    banter_io io{};
    io.struct_size = sizeof io;
    io.user_data = this;
    io.open = [](const char* path, void** file, void* user_data) -> banter_result {
      auto& self = *static_cast<Archive*>(user_data);
      self.on_game_thread = self.on_game_thread || std::this_thread::get_id() == self.game;
      if (self.open_code != BANTER_OK) return self.open_code;
      const auto found = self.files.find(path);
      if (found == self.files.end()) return BANTER_ERROR_FILE_NOT_FOUND;
      ++self.opened;
      *file = &found->second;
      return BANTER_OK;
    };
    io.size = [](void* file, void*) -> uint64_t { return static_cast<std::vector<std::byte>*>(file)->size(); };
    io.read_at = [](void* file, uint64_t offset, void* buffer, size_t bytes, void* user_data) -> banter_result {
      auto& self = *static_cast<Archive*>(user_data);
      if (self.reads++ == self.fail_at) return BANTER_ERROR_IO;
      const auto& content = *static_cast<std::vector<std::byte>*>(file);
      if (offset + bytes > content.size()) return BANTER_ERROR_IO;
      std::memcpy(buffer, content.data() + offset, bytes);
      return BANTER_OK;
    };
    io.close = [](void*, void* user_data) { ++static_cast<Archive*>(user_data)->closed; };
    return io;
  }
};

banter_request_id load_from(Host& host, const banter_io& io, const std::string& path, banter_model** model) {
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  config.path = path.data();
  config.path_len = path.size();
  config.io = &io;
  banter_request_id request = 0;
  EXPECT_EQ(banter_model_load(host.engine, &config, model, &request), BANTER_OK) << banter_last_error_message();
  return request;
}

TEST(Hostile, ModelsComeThroughCallbacksAndEveryFailingReadIsTold) {
  Archive archive;
  archive.files["res://mira.gguf"] = tiny_model();
  const banter_io io = archive.io();
  Host host;
  banter_model* model = nullptr;
  ASSERT_EQ(host.finish(load_from(host, io, "res://mira.gguf", &model)).kind, BANTER_EVENT_MODEL_READY);
  EXPECT_EQ(host.finish(complete(model, "x", Ask(2, kGoOn))).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(archive.opened, archive.closed);  // the file is let go when the model is ready
  EXPECT_FALSE(archive.on_game_thread);
  banter_model_release(model);
  const int reads = archive.reads;
  for (int n = 0; n < reads; n += 1 + n / 8) {
    archive.reads = 0;
    archive.fail_at = n;
    const Outcome outcome = host.finish(load_from(host, io, "res://mira.gguf", &model));
    EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED) << "read " << n;
    EXPECT_EQ(banter_result_class(outcome.code), BANTER_ERROR_IO) << outcome.message;
    EXPECT_NE(outcome.message.find("res://mira.gguf"), std::string::npos) << outcome.message;
    banter_model_release(model);
  }
  archive.fail_at = -1;
  EXPECT_EQ(host.finish(load_from(host, io, "res://absent.gguf", &model)).code, BANTER_ERROR_FILE_NOT_FOUND);
  banter_model_release(model);
  archive.open_code = 12345;  // not a code that open may return
  EXPECT_EQ(host.finish(load_from(host, io, "res://mira.gguf", &model)).code, BANTER_ERROR_IO);
  archive.open_code = BANTER_OK;
  EXPECT_EQ(host.finish(load_from(host, io, "res://mira.gguf", &model)).kind, BANTER_EVENT_MODEL_READY);
  ASSERT_TRUE(host.pump_until([&] { return archive.opened == archive.closed; }));
}

TEST(Hostile, GarbageThenAGoodFile) {
  const auto good = tiny_model();
  TempFolder folder;
  Host host;
  const auto expect_failure = [&](const std::vector<std::byte>& bytes, const std::string& what) {
    banter_model* model = nullptr;
    const Outcome outcome = host.finish(host.start_load(bytes, &model));
    EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED) << what;
    EXPECT_GT(outcome.message.size(), 10u) << what;
    banter_npc* const npc = host.npc(model, "P");
    const Outcome said = host.finish(say(npc, "Hi", Ask(2)));
    EXPECT_EQ(said.code, BANTER_ERROR_STATE) << what;
    EXPECT_NE(said.message.find(outcome.message), std::string::npos) << said.message;
    banter_model_info info{};
    info.struct_size = sizeof info;
    EXPECT_EQ(banter_model_get_info(model, &info), BANTER_ERROR_STATE);
    size_t count = 0;
    EXPECT_EQ(banter_model_tokenize(model, "x", 1, nullptr, 0, &count), BANTER_ERROR_STATE);
    banter_npc_destroy(npc);
    banter_model_release(model);
  };
  expect_failure(std::vector<std::byte>(1000, std::byte{7}), "noise");
  expect_failure({good.begin(), good.begin() + 3}, "three bytes");
  for (const size_t cut : {good.size() / 100, good.size() / 3, good.size() - 1}) {
    expect_failure({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut)}, "cut at " + std::to_string(cut));
  }
  GgufWriter unknown;
  unknown.set_string("general.architecture", "mystery");
  expect_failure(unknown.bytes(), "unknown architecture");

  const std::string absent = folder.file("absent.gguf");
  banter_model_config config;
  banter_model_config_init(&config, sizeof config);
  config.path = absent.data();
  config.path_len = absent.size();
  banter_model* model = nullptr;
  banter_request_id request = 0;
  ASSERT_EQ(banter_model_load(host.engine, &config, &model, &request), BANTER_OK);
  const Outcome outcome = host.finish(request);
  EXPECT_EQ(outcome.code, BANTER_ERROR_FILE_NOT_FOUND);
  EXPECT_NE(outcome.message.find("absent.gguf"), std::string::npos);
  banter_model_release(model);

  const std::string path = folder.file("Märchen 狐.gguf");
  ASSERT_TRUE(write_file(path, good));
  config.path = path.data();
  config.path_len = path.size();
  ASSERT_EQ(banter_model_load(host.engine, &config, &model, &request), BANTER_OK);
  EXPECT_EQ(host.finish(request).kind, BANTER_EVENT_MODEL_READY);
  EXPECT_EQ(host.finish(complete(model, "x", Ask(2, kGoOn))).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(host.statistics().models_loaded, 1u);
}

}  // namespace
}  // namespace banter::test
