# cmake -DBUILD=DIRECTORY -DROOT=DIRECTORY -DLISTS=DIRECTORY -P packaging/rpm/stage.cmake: installs the components of the build to the root of the
# packages, and writes the list of the files of each package, LISTS/PACKAGE.files.

cmake_policy(VERSION 3.18)
include("${BUILD}/CPackConfig.cmake")
include("${CPACK_SARUS_SOURCE_DIR}/packaging/lib/layout.cmake")

# The line of a list for one file: TYPE is find's letter.
function(describe type path line)
    if(type STREQUAL "d")
        # Other directories, such as those of manual pages, belong to the system.
        if(path MATCHES "^/etc/podman_hpc|/sarus(/|$)")
            set(${line} "%dir ${path}\n" PARENT_SCOPE)
        else()
            set(${line} "" PARENT_SCOPE)
        endif()
    elseif(path MATCHES "^/etc/")
        set(${line} "%config(noreplace) ${path}\n" PARENT_SCOPE)
    elseif(path MATCHES "^/usr/share/man/")
        set(${line} "${path}*\n" PARENT_SCOPE)  # rpmbuild compresses it
    elseif(path MATCHES "/sarus-starter$")
        set(${line} "%verify(not user group mode) ${path}\n" PARENT_SCOPE)  # configure_installation.sh and the site decide
    else()
        set(${line} "${path}\n" PARENT_SCOPE)
    endif()
endfunction()

file(REMOVE_RECURSE "${LISTS}")
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER "${component}" id)
    set(stage "${LISTS}/${component}")
    execute_process(COMMAND "${CMAKE_COMMAND}" -E env "DESTDIR=${stage}"
                            "${CMAKE_COMMAND}" --install "${BUILD}" --component "${component}" --prefix "${CPACK_PACKAGING_INSTALL_PREFIX}" --strip
                    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
    sarus_lay_out("${stage}" "${component}")
    execute_process(COMMAND find "${stage}" -mindepth 1 -printf "%y;/%P\n" OUTPUT_VARIABLE found COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "[a-z];[^\n]+" found "${found}")
    set(lines "")
    while(found)
        list(POP_FRONT found type path)
        describe("${type}" "${path}" line)
        string(APPEND lines "${line}")
    endwhile()
    file(WRITE "${LISTS}/${CPACK_DEBIAN_${id}_PACKAGE_NAME}.files" "${lines}")
    file(MAKE_DIRECTORY "${ROOT}")
    execute_process(COMMAND cp -a "${stage}/." "${ROOT}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
