# pqs_module(NAME SOURCES a.c b.c MODULES base stats LIBRARIES SQLite::SQLite3)
#
# One static library per folder of src/. Its headers are reachable as "NAME/header.h", and only for targets that name it: each
# module has an include directory of its own holding nothing but a link to that folder, and links are private. So an include
# that breaks the layering does not compile.
function(pqs_module name)
    cmake_parse_arguments(arg "" "" "SOURCES;MODULES;LIBRARIES" ${ARGN})
    add_library(pqs_${name} STATIC ${arg_SOURCES})
    set(view ${CMAKE_BINARY_DIR}/include/${name})
    file(MAKE_DIRECTORY ${view})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${name} ${view}/${name} SYMBOLIC)
    target_include_directories(pqs_${name} PUBLIC ${view})
    pqs_use(pqs_${name} MODULES ${arg_MODULES} LIBRARIES ${arg_LIBRARIES})
endfunction()

# pqs_use(TARGET MODULES ... LIBRARIES ...): private links to modules and to outside libraries.
function(pqs_use target)
    cmake_parse_arguments(arg "" "" "MODULES;LIBRARIES" ${ARGN})
    list(TRANSFORM arg_MODULES PREPEND pqs_)
    target_link_libraries(${target} PRIVATE ${arg_MODULES} ${arg_LIBRARIES})
endfunction()
