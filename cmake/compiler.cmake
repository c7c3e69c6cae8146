# One warning level for everything; a warning is an error (the compilers this is kept clean with: gcc 12, clang 14).
add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Wvla -Werror
                    -fno-omit-frame-pointer -fstack-protector-strong)
add_compile_definitions(_GNU_SOURCE)
if(PQSHAKE_SANITIZE)
    add_compile_options(-fsanitize=${PQSHAKE_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${PQSHAKE_SANITIZE})
endif()
if(PQSHAKE_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link) # coverage for libFuzzer; its main is linked in by tests/fuzz
endif()

# The commit goes into every run (summary.json: tool.git_commit); "unknown" outside a checkout.
execute_process(COMMAND git -C ${CMAKE_SOURCE_DIR} describe --always --dirty --abbrev=12
                OUTPUT_VARIABLE PQSHAKE_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT PQSHAKE_COMMIT)
    set(PQSHAKE_COMMIT unknown)
endif()
