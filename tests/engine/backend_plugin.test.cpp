// Backends from a shared library: what is refused and why, who takes over, and what becomes of requests when a device fails.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "base/shared_library.h"
#include "engine/plugin_fixture.h"

namespace banter::test {
namespace {

class BackendPlugin : public PluginTest {
 protected:
  /** What AUTO and CUDA do with a library that is of no use. */
  void expect_refused(const char* path, const std::string& why, banter_result code = BANTER_ERROR_UNSUPPORTED) {
    SCOPED_TRACE(why);
    const auto told = host(BANTER_BACKEND_CUDA, path);
    const Outcome refused = load(*told);
    EXPECT_EQ(refused.kind, BANTER_EVENT_FAILED);
    EXPECT_EQ(refused.code, code) << refused.message;
    EXPECT_NE(refused.message.find(why), std::string::npos) << refused.message;
    EXPECT_EQ(refused.terminals, 1);
    clear_log();
    const auto automatic = host(BANTER_BACKEND_AUTO, path);
    const Outcome taken = load(*automatic);
    ASSERT_EQ(taken.kind, BANTER_EVENT_MODEL_READY) << taken.message;
    EXPECT_EQ(std::string(info().backend).rfind("cpu/", 0), 0u) << info().backend;
    EXPECT_NE(std::string(info().backend_reason).find(why), std::string::npos) << info().backend_reason;
    EXPECT_NE(log().find(why), std::string::npos) << log();
    EXPECT_FALSE(greeting(*automatic).empty());
  }
};

TEST_F(BackendPlugin, WhatIsNoPluginIsRefusedWithItsReason) {
  expect_refused("/nowhere/libbanter_cuda.so", "there is no file /nowhere/libbanter_cuda.so");
  expect_refused(BANTER_SOURCES "/ops/backend.h", "the system cannot load it");
  expect_refused(BANTER_TEST_NO_PLUGIN_FILE, "it has no function banter_backend_plugin_v1");
}

TEST_F(BackendPlugin, PluginsOfAnotherBuildAreRefused) {
  spoil("version");
  expect_refused(kPlugin, "another plugin interface");
  spoil("fingerprint");
  expect_refused(kPlugin, "is of build 0.0.9-1234, this library of build ");
}

TEST_F(BackendPlugin, ADeviceThatDoesNotSuitIsRefused) {
  spoil("score");
  expect_refused(kPlugin, "no device suits the test.");
  spoil("create");
  expect_refused(kPlugin, "the test's device is full.", BANTER_ERROR_OUT_OF_MEMORY);
}

TEST_F(BackendPlugin, AModelThatTheDeviceCannotTakeGoesToTheProcessor) {
  spoil("upload");
  const auto told = host(BANTER_BACKEND_CUDA);
  const Outcome refused = load(*told);
  EXPECT_EQ(refused.code, BANTER_ERROR_OUT_OF_MEMORY) << refused.message;
  EXPECT_NE(refused.message.find("as tests want it"), std::string::npos) << refused.message;
  const auto automatic = host(BANTER_BACKEND_AUTO);
  ASSERT_EQ(load(*automatic).kind, BANTER_EVENT_MODEL_READY);
  EXPECT_NE(std::string(info().backend_reason).find("as tests want it"), std::string::npos) << info().backend_reason;
  EXPECT_FALSE(greeting(*automatic).empty());
}

TEST_F(BackendPlugin, WorksAndIsToldWhatItNeeds) {
  banter_cuda_context context{};
  context.struct_size = sizeof context;
  context.kind = BANTER_CUDA_CONTEXT_EXISTING;
  context.handle = reinterpret_cast<void*>(0x1230);
  const auto plugin = host(BANTER_BACKEND_AUTO, kPlugin, [&](banter_engine_config& config) {
    config.cuda_device = 2;
    config.cuda_context = &context;
    config.memory_budget_bytes = 64 << 20;
  });
  context = {};  // copied by the call
  ASSERT_EQ(load(*plugin).kind, BANTER_EVENT_MODEL_READY);
  EXPECT_EQ(std::string(info().backend).rfind("test/a name", 0), 0u) << info().backend;
  EXPECT_STREQ(info().backend_reason, "device 2, budget 67108864, context 1 at 0x1230.");
  const std::string text = greeting(*plugin);
  EXPECT_FALSE(text.empty());
  const auto reference = host(BANTER_BACKEND_REFERENCE);
  ASSERT_EQ(load(*reference).kind, BANTER_EVENT_MODEL_READY);
  EXPECT_STREQ(info().backend_reason, "The reference backend was asked for.");
  EXPECT_EQ(greeting(*reference), text);
}

TEST_F(BackendPlugin, TheEnvironmentNamesAnotherLibrary) {
  setenv("BANTER_CUDA_LIBRARY", kPlugin, 1);
  const auto plugin = host(BANTER_BACKEND_CUDA, "/nowhere/libbanter_cuda.so");
  EXPECT_EQ(load(*plugin).kind, BANTER_EVENT_MODEL_READY);
  EXPECT_STREQ(info().backend_reason, "device -1, budget 0, context 0 at (nil).");
}

TEST_F(BackendPlugin, WithoutAPathItIsLookedForBesideThisCode) {
  const auto location = locate_this_code();
  ASSERT_TRUE(location) << location.error().message;
  EXPECT_TRUE(location->is_program);
  EXPECT_EQ(location->path.substr(location->path.rfind('/')), "/engine_backend_plugin");
  EXPECT_EQ(location->path[0], '/');
}

// Every function of the interface must be passed on: one with a default would otherwise silently do nothing.
TEST_F(BackendPlugin, AllOfTheInterfaceIsForwarded) {
  const auto text_of_file = [](const char* path) {
    std::ifstream file(path);
    EXPECT_TRUE(file) << path;
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string header = text_of_file(BANTER_SOURCES "/ops/backend.h");
  const std::string forwarder = text_of_file(BANTER_SOURCES "/engine/plugin_backend.cpp");
  const std::string backend = header.substr(header.find("\nclass Backend {"));
  const std::regex declaration(R"(\n  virtual [^;{]*?(\w+)\([^;]*?[;{])");
  int functions = 0;
  for (std::sregex_iterator it(backend.begin(), backend.end(), declaration), end; it != end; ++it) {
    const std::string name = (*it)[1];
    if ((*it)[0].str().find('~') != std::string::npos) continue;
    ++functions;
    EXPECT_TRUE(std::regex_search(forwarder, std::regex("\\b" + name + "\\([^;{]*override"))) << name;
    EXPECT_NE(name == "name" ? 0 : forwarder.find("backend_->" + name + "("), std::string::npos) << name;
  }
  EXPECT_GE(functions, 20);
}

TEST_F(BackendPlugin, RequestsOfAFailedStepEndOnceAndTheNextOnesGoOn) {
  spoil("only=3");
  const auto plugin = host(BANTER_BACKEND_CUDA);
  ASSERT_EQ(load(*plugin).kind, BANTER_EVENT_MODEL_READY);
  std::vector<banter_request_id> requests;
  banter_npc* const npc = plugin->npc(model_);
  for (int i = 0; i < 3; ++i) requests.push_back(say(npc, "Hello", Ask(12, kGoOn)));
  const Outcome failed = plugin->finish(requests[0]);
  EXPECT_EQ(failed.kind, BANTER_EVENT_FAILED);
  EXPECT_EQ(failed.code, BANTER_ERROR_BACKEND);
  EXPECT_NE(failed.message.find("failed at step 3, as it was told to"), std::string::npos) << failed.message;
  EXPECT_NE(log().find("The test's device fails."), std::string::npos);
  EXPECT_EQ(plugin->finish(requests[1]).kind, BANTER_EVENT_DONE);
  EXPECT_EQ(plugin->finish(requests[2]).kind, BANTER_EVENT_DONE);
  for (const banter_request_id request : requests) EXPECT_EQ(plugin->outcomes[request].terminals, 1);
}

TEST_F(BackendPlugin, ADeadDeviceEndsEveryRequestOnceAndNothingSpins) {
  spoil("step=4");
  const auto plugin = host(BANTER_BACKEND_CUDA);
  ASSERT_EQ(load(*plugin).kind, BANTER_EVENT_MODEL_READY);
  std::vector<banter_request_id> requests;
  for (int i = 0; i < 6; ++i) {
    banter_npc* const npc = plugin->npc(model_);
    for (int turn = 0; turn < 3; ++turn) requests.push_back(say(npc, "Hello", Ask(40, kGoOn)));
    requests.push_back(complete(model_, "Once", Ask(40, kGoOn)));
  }
  for (const banter_request_id request : requests) {
    const Outcome outcome = plugin->finish(request);
    EXPECT_EQ(outcome.kind, BANTER_EVENT_FAILED) << outcome.message;
    EXPECT_EQ(outcome.code, BANTER_ERROR_BACKEND) << outcome.message;
  }
  plugin->pump_until([] { return false; }, 0.1);
  for (const banter_request_id request : requests) EXPECT_EQ(plugin->outcomes[request].terminals, 1);
  const banter_engine_statistics before = plugin->statistics();
  plugin->pump_until([] { return false; }, 0.2);
  EXPECT_EQ(plugin->statistics().steps, before.steps);
  EXPECT_EQ(before.requests_active, 0u);
  // What comes later ends likewise.
  const Outcome late = plugin->finish(complete(model_, "Again", Ask(4)));
  EXPECT_EQ(late.code, BANTER_ERROR_BACKEND);
  EXPECT_EQ(late.terminals, 1);
}

}  // namespace
}  // namespace banter::test
