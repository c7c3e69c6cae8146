# format, lint: the rules are .clang-format and .clang-tidy.
file(GLOB_RECURSE all_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*.[ch] ${CMAKE_SOURCE_DIR}/tests/*.[ch])
file(GLOB_RECURSE tidy_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*.c)
add_custom_target(format COMMAND clang-format -i ${all_sources} VERBATIM)
add_custom_target(lint
    COMMAND clang-format --dry-run -Werror ${all_sources}
    COMMAND clang-tidy --quiet -p ${CMAKE_BINARY_DIR} ${tidy_sources}
    VERBATIM)
# bench: ratios within one run; never part of the tests.
add_custom_target(bench COMMAND ${CMAKE_SOURCE_DIR}/tools/bench $<TARGET_FILE:pqshake>
                  DEPENDS pqshake pqshake-worker-openssl USES_TERMINAL VERBATIM)
