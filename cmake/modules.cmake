# pqs_module(NAME SOURCES a.c b.c MODULES base stats LIBRARIES SQLite::SQLite3)
#
# One static library per folder of src/. Its headers are reachable as "NAME/header.h", and only for targets that name it: each
# module has an include directory of its own holding nothing but a link to that folder, and links are private. So an include
# that breaks the layering does not compile.
#
# pqs_module(NAME STACKED ...): the module calls a TLS library, so it is compiled once for each stack of PQS_STACKS; "@" in the
# name of a source is the stack's name there ("evp_@.c": evp_openssl.c, evp_aws_lc.c).
function(pqs_module name)
    cmake_parse_arguments(arg "STACKED" "" "SOURCES;MODULES;LIBRARIES" ${ARGN})
    set(view ${CMAKE_BINARY_DIR}/include/${name})
    file(MAKE_DIRECTORY ${view})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${name} ${view}/${name} SYMBOLIC)
    if(arg_STACKED)
        set_property(GLOBAL APPEND PROPERTY PQS_STACKED ${name})
        foreach(stack ${PQS_STACKS})
            string(REPLACE "-" "_" file ${stack})
            string(REPLACE "@" "${file}" sources "${arg_SOURCES}")
            add_library(pqs_${name}_${stack} STATIC ${sources})
            target_include_directories(pqs_${name}_${stack} PUBLIC ${view})
            target_link_libraries(pqs_${name}_${stack} PRIVATE pqs_library_${stack})
            pqs_use(pqs_${name}_${stack} STACK ${stack} MODULES ${arg_MODULES} LIBRARIES ${arg_LIBRARIES})
        endforeach()
        return()
    endif()
    add_library(pqs_${name} STATIC ${arg_SOURCES})
    target_include_directories(pqs_${name} PUBLIC ${view})
    pqs_use(pqs_${name} MODULES ${arg_MODULES} LIBRARIES ${arg_LIBRARIES})
endfunction()

# pqs_use(TARGET [STACK openssl] MODULES ... LIBRARIES ...): private links to modules and to outside libraries; with STACK to
# that stack's build of modules that have one for each, and to its library.
function(pqs_use target)
    cmake_parse_arguments(arg "" "STACK" "MODULES;LIBRARIES" ${ARGN})
    get_property(stacked GLOBAL PROPERTY PQS_STACKED)
    foreach(module ${arg_MODULES})
        if(module IN_LIST stacked)
            target_link_libraries(${target} PRIVATE pqs_${module}_${arg_STACK} pqs_library_${arg_STACK})
        else()
            target_link_libraries(${target} PRIVATE pqs_${module})
        endif()
    endforeach()
    target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
endfunction()
