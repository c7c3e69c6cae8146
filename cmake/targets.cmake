# format, lint: the rules are .clang-format and .clang-tidy.
add_custom_target(format COMMAND find ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests -name *.[ch] -exec clang-format -i {} +
                  VERBATIM)
add_custom_target(lint COMMAND ${CMAKE_SOURCE_DIR}/tools/lint ${CMAKE_BINARY_DIR} VERBATIM)
list(TRANSFORM PQS_STACKS PREPEND pqshake-worker- OUTPUT_VARIABLE workers)
# bench: ratios within one run; never part of the tests.
add_custom_target(bench COMMAND ${CMAKE_SOURCE_DIR}/tools/bench $<TARGET_FILE:pqshake>
                  DEPENDS pqshake ${workers} USES_TERMINAL VERBATIM)
