# banter_godot, the extension, and what completes the addon's folder. Included by CMakeLists.txt.
set(cache $ENV{XDG_CACHE_HOME})
if(NOT cache)
  set(cache $ENV{HOME}/.cache)
endif()
find_program(BANTER_GODOT NAMES godot godot4 HINTS ${cache}/banter/godot DOC "Godot 4.3 or later")
if(NOT BANTER_GODOT)
  message(STATUS "The Godot addon is not built: no Godot was found; ./dev godot brings one, or set BANTER_GODOT to its path.")
  return()
endif()

get_filename_component(beside ${BANTER_GODOT} DIRECTORY)
find_program(BANTER_GODOT_TEMPLATE NAMES godot-template-release HINTS ${beside}/tree/usr/bin DOC "Godot's export template, for tests")
find_program(BANTER_GODOT_TEMPLATE_DEBUG NAMES godot-template-debug HINTS ${beside}/tree/usr/bin DOC "Godot's export template for debugging, for a test")

set(interface ${CMAKE_CURRENT_BINARY_DIR}/interface)
file(MAKE_DIRECTORY ${interface} ${CMAKE_CURRENT_BINARY_DIR}/home)
add_custom_command(
  OUTPUT ${interface}/gdextension_interface.h
  COMMAND ${CMAKE_COMMAND} -E env HOME=${CMAKE_CURRENT_BINARY_DIR}/home sh -c
          "\"$0\" --headless --dump-gdextension-interface >dump.log" ${BANTER_GODOT}
  WORKING_DIRECTORY ${interface}
  COMMENT "Asking Godot for its interface" VERBATIM)

# The pages of the class documentation, inside the library for the editor's help.
file(GLOB pages CONFIGURE_DEPENDS doc_classes/*.xml)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${pages})
set(documentation "#pragma once\n#include <string_view>\nnamespace banter::godot {\ninline constexpr std::string_view kDocumentation[] = {\n")
foreach(page ${pages})
  file(READ ${page} text)
  string(APPEND documentation "R\"page(${text})page\",\n")
endforeach()
string(APPEND documentation "};\n}  // namespace banter::godot\n")
file(CONFIGURE OUTPUT ${interface}/documentation.h CONTENT "${documentation}" @ONLY)

# Everything but the looking up of the interface, which the tests also build for an older engine.
add_library(
  banter_godot_objects OBJECT
  src/banter_engine.cpp src/banter_model.cpp src/banter_npc.cpp src/banter_profile.cpp src/engine_host.cpp src/engine_properties.cpp src/file_access_io.cpp src/npc_events.cpp
  src/npc_properties.cpp src/pending.cpp src/register.cpp src/binding/class_builder.cpp src/binding/variant.cpp
  ${interface}/gdextension_interface.h)
banter_configure_target(banter_godot_objects)
set_target_properties(banter_godot_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_compile_options(banter_godot_objects PRIVATE -fno-rtti)
target_include_directories(banter_godot_objects PUBLIC src SYSTEM ${interface})
target_link_libraries(banter_godot_objects PUBLIC banter_godot_parts banter_static)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/exports "banter_godot_init\n")
set(banter_godot_exports ${CMAKE_CURRENT_BINARY_DIR}/exports)

# banter_godot_extension(<target>): makes a module of interface.cpp the whole extension.
function(banter_godot_extension target)
  banter_configure_target(${target})
  target_compile_options(${target} PRIVATE -fno-rtti)
  target_link_libraries(${target} PRIVATE banter_godot_objects)
  banter_version_script(${target} ${banter_godot_exports})
  target_link_options(${target} PRIVATE LINKER:-z,relro,-z,now LINKER:--as-needed)
  if(NOT BANTER_SANITIZE)  # the sanitizers' run-time library comes from outside, and sees only a shared libstdc++
    target_link_options(${target} PRIVATE LINKER:-z,defs -static-libstdc++ -static-libgcc)
  endif()
endfunction()

add_library(banter_godot MODULE src/binding/interface.cpp)
banter_godot_extension(banter_godot)

# The addon as a project takes it: the folder of the sources, with the library in its bin.
add_custom_target(
  banter_godot_addon
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_SOURCE_DIR}/addons/banter/bin
  COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:banter_godot> ${CMAKE_CURRENT_SOURCE_DIR}/addons/banter/bin
  COMMENT "Completing plugin_godot/addons/banter")
add_dependencies(banter_godot_addon banter_godot)
