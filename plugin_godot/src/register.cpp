// Where Godot enters: registers the classes when the scene level comes up, and takes them back when it goes.
#include "banter_engine.h"
#include "banter_model.h"
#include "banter_npc.h"
#include "banter_profile.h"
#include "documentation.h"
#include "file_access_io.h"

namespace banter::godot {
namespace {

/** Whether the editor found this extension while it runs, and has no screen: nobody reads its help then. It is left alone, for Godot 4.6
 *  crashes when such an editor ends at once (`--headless --import` in a fresh copy of a project) and clears that help. (It may do
 *  so over what it knows of the classes themselves, too.) */
bool was_found_without_screen() {
  const char* const display = "DisplayServer";  // which is not there yet when an editor starts that knows the extension
  if (!Variant(singleton("Engine")).call("has_singleton", display).to_bool()) return false;
  return Variant(singleton(display)).call("get_name").to_text() == "headless";
}

void load_documentation() {
  const auto load_help = interface().editor_help_load_xml_from_utf8_chars_and_len;
  if (load_help == nullptr || was_found_without_screen()) return;
  for (const std::string_view page : kDocumentation) load_help(page.data(), static_cast<GDExtensionInt>(page.size()));
}

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
  if (level == GDEXTENSION_INITIALIZATION_EDITOR) load_documentation();
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
