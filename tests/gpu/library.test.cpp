// libbanter_cuda as nvcc built it, opened by the engine as a game's would be: on a machine with a card it talks; on one
// without, it says what is missing and the processor takes over.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "engine/test_host.h"

namespace banter::test {
namespace {

TEST(CudaLibrary, TalksOrSaysWhyNot) {
  // Where check.sh found it, which may be another machine than the one that built it.
  const char* const given = std::getenv("BANTER_CUDA_LIBRARY");
  const std::string library = given != nullptr && *given != '\0' ? given : BANTER_CUDA_LIBRARY_FILE;
  unsetenv("BANTER_CUDA_LIBRARY");
  const std::vector<std::byte> bytes = tiny_model();
  Host told([&](banter_engine_config& config) {
    config.backend = BANTER_BACKEND_CUDA;
    config.cuda_library_path = library.c_str();
  });
  banter_model* model = nullptr;
  const Outcome loaded = told.finish(told.start_load(bytes, &model));
  if (loaded.kind == BANTER_EVENT_MODEL_READY) {
    banter_model_info info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(banter_model_get_info(model, &info), BANTER_OK);
    EXPECT_EQ(std::string(info.backend).rfind("cuda/sm_", 0), 0u) << info.backend;
    EXPECT_NE(std::string(info.backend_reason).find("compute capability"), std::string::npos) << info.backend_reason;
    const Outcome reply = told.finish(say(told.npc(model), "Hello", Ask(12, kGoOn)));
    EXPECT_EQ(reply.kind, BANTER_EVENT_DONE) << reply.message;
    EXPECT_EQ(reply.tokens.size(), 12u);
    return;
  }
  ASSERT_TRUE(given == nullptr || *given == '\0') << "a card is expected: " << loaded.message;
  EXPECT_EQ(loaded.code, BANTER_ERROR_UNSUPPORTED) << loaded.message;
  EXPECT_EQ(loaded.message.rfind("CUDA is not used: ", 0), 0u) << loaded.message;
  EXPECT_NE(loaded.message.find("NVIDIA"), std::string::npos) << loaded.message;

  Host automatic([&](banter_engine_config& config) { config.cuda_library_path = library.c_str(); });
  banter_model* const other = automatic.load(bytes);
  banter_model_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(banter_model_get_info(other, &info), BANTER_OK);
  EXPECT_EQ(std::string(info.backend_reason), loaded.message);
  EXPECT_EQ(automatic.finish(say(automatic.npc(other), "Hello", Ask(12, kGoOn))).kind, BANTER_EVENT_DONE);
}

}  // namespace
}  // namespace banter::test
