# Settings that every Banter target shares; no global flags are touched.

# banter_configure_target(<target>): language level, hidden symbols, warnings, the sanitizers that BANTER_SANITIZE names.
function(banter_configure_target target)
  target_compile_features(${target} PUBLIC cxx_std_20 c_std_99)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF C_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden
                                             C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  set(host $<COMPILE_LANGUAGE:C,CXX>)  # nvcc takes none of these flags; backend_cuda gives it its own
  target_compile_options(${target} PRIVATE "$<${host}:-Wall;-Wextra;$<$<BOOL:${BANTER_WERROR}>:-Werror>>")
  if(BANTER_WERROR AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)  # GCC bug 105651: false on std::string
  endif()
  # -ffp-contract=off: the same arithmetic in every build, so results do not depend on inlining.
  target_compile_options(${target} PRIVATE $<${host}:-ffp-contract=off>)
  if(BANTER_SANITIZE)
    set(flags "-fsanitize=${BANTER_SANITIZE}" -fno-omit-frame-pointer)
    if(BANTER_SANITIZE MATCHES "undefined")
      # vptr needs the type information that the library is built without.
      list(APPEND flags -fno-sanitize-recover=all -fno-sanitize=vptr)
    endif()
    if(BANTER_BUILD_FUZZERS)
      list(APPEND flags -fsanitize=fuzzer-no-link)
    endif()
    if(BANTER_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      list(APPEND flags -Wno-tsan)  # the queue library's fences; its own annotations cover them
    endif()
    target_compile_options(${target} PUBLIC ${flags})
    target_link_options(${target} PUBLIC "-fsanitize=${BANTER_SANITIZE}")
  endif()
endfunction()

# banter_version_script(<target> <list file>): exports the symbols that the file names, one a line, and no other.
function(banter_version_script target exports)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${exports})
  file(STRINGS ${exports} symbols REGEX "^[A-Za-z_]")
  list(JOIN symbols ";\n    " lines)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  file(CONFIGURE OUTPUT ${script} CONTENT "{\n  global:\n    ${lines};\n  local: *;\n};\n" @ONLY)
  target_link_options(${target} PRIVATE "LINKER:--version-script=${script}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
endfunction()

# banter_prelink(<output object> <exports file> OBJECTS <files…> ARCHIVES <files…>): one relocatable object that holds
# the library with the archives it needs, every symbol but the exported ones made local. A static library made of it needs no
# other library, and clashes with no other copy of PCRE2, utf8proc or our own classes in the host (game engines carry those).
function(banter_prelink output exports)
  cmake_parse_arguments(arg "" "" "OBJECTS;ARCHIVES" ${ARGN})
  # --force-group-allocation dissolves COMDAT groups: a local symbol cannot name a group, and the copies here are ours alone.
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -Wl,--force-group-allocation -o ${output}.all.o "${arg_OBJECTS}" ${arg_ARCHIVES}
    # objcopy makes no "unique" symbol (a static of an inline function) local; weak ones it does.
    COMMAND sh -c "${CMAKE_NM} --defined-only ${output}.all.o | sed -n 's/^[0-9a-f]* u //p' >${output}.unique"
    COMMAND ${CMAKE_OBJCOPY} --weaken-symbols=${output}.unique ${output}.all.o
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbols=${exports} ${output}.all.o ${output}
    COMMAND ${CMAKE_COMMAND} -E rm -f ${output}.all.o ${output}.unique
    DEPENDS ${arg_OBJECTS} ${arg_ARCHIVES} ${exports}
    COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Prelinking banter_static")
  set_source_files_properties(${output} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
endfunction()
