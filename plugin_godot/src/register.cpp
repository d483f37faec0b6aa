// Where Godot enters: registers the classes when the scene level comes up, and takes them back when it goes.
#include "banter_engine.h"
#include "banter_model.h"
#include "banter_npc.h"
#include "banter_profile.h"
#include "documentation.h"
#include "file_access_io.h"

namespace banter::godot {
namespace {

void initialize(void* userdata, GDExtensionInitializationLevel level) {
  auto& registry = *static_cast<Registry*>(userdata);
  if (level == GDEXTENSION_INITIALIZATION_SCENE) {
    if (!prepare_file_access()) return;
    BanterPending::register_class(registry);
    BanterModel::register_class(registry);
    BanterProfile::register_class(registry);
    BanterEngine::register_class(registry);
    BanterNPC::register_class(registry);
  }
  const auto load_help = interface().editor_help_load_xml_from_utf8_chars_and_len;
  if (level == GDEXTENSION_INITIALIZATION_EDITOR && load_help != nullptr) {
    for (const std::string_view page : kDocumentation) load_help(page.data(), static_cast<GDExtensionInt>(page.size()));
  }
}

void deinitialize(void* userdata, GDExtensionInitializationLevel level) {
  if (level != GDEXTENSION_INITIALIZATION_SCENE) return;
  const std::unique_ptr<Registry> registry(
      static_cast<Registry*>(userdata));  // it is not needed again: a reload enters anew
  registry->clear();
}

}  // namespace
}  // namespace banter::godot

extern "C" __attribute__((visibility("default"))) GDExtensionBool banter_godot_init(
    GDExtensionInterfaceGetProcAddress get_proc_address, GDExtensionClassLibraryPtr library,
    GDExtensionInitialization* initialization) {
  if (!banter::godot::load_interface(get_proc_address, library)) return 0;
  initialization->minimum_initialization_level = GDEXTENSION_INITIALIZATION_SCENE;
  initialization->userdata = std::make_unique<banter::godot::Registry>().release();
  initialization->initialize = &banter::godot::initialize;
  initialization->deinitialize = &banter::godot::deinitialize;
  return 1;
}
