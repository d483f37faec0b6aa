# Settings that every Banter target shares; no global flags are touched.
function(banter_configure_target target)
  target_compile_features(${target} PUBLIC cxx_std_20 c_std_99)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF C_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden
                                             C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${BANTER_WERROR}>:-Werror>)
  # -ffp-contract=off: the same arithmetic in every build, so results do not depend on inlining.
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  if(BANTER_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${BANTER_SANITIZE} -fno-omit-frame-pointer
                                            $<$<STREQUAL:${BANTER_SANITIZE},address,undefined>:-fno-sanitize-recover=all>)
    target_link_options(${target} PUBLIC -fsanitize=${BANTER_SANITIZE})
  endif()
endfunction()
