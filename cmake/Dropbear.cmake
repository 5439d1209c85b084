# The SSH software of ssh_hook, in <prefix>/dropbear. The hook works with one that was put there later, too.

if(ENABLE_SSH)
    find_program(MUSL_GCC musl-gcc)  # or what the toolchain file says
    if(MUSL_GCC)
        set(dropbear "${CMAKE_SOURCE_DIR}/packaging/dropbear")
        include(ProcessorCount)
        ProcessorCount(processors)
        # Without a mirror, or with a version that does not build, everything else is built; in continuous integration that would hide tests.
        set(optional --optional)
        if("$ENV{CI}" STREQUAL "true")
            set(optional "")
        endif()
        add_custom_command(OUTPUT "${CMAKE_BINARY_DIR}/dropbear/bin/dropbearmulti"
            COMMAND "${dropbear}/build" ${optional} --compiler "${MUSL_GCC}" --jobs ${processors} "${CMAKE_BINARY_DIR}/dropbear"
            DEPENDS "${dropbear}/build" "${CMAKE_SOURCE_DIR}/packaging/lib/sources.sh" "${dropbear}/container.patch" "${dropbear}/container-2024.patch" "${dropbear}/localoptions.h"
            COMMENT "Building Dropbear" VERBATIM)
        add_custom_target(dropbear ALL DEPENDS "${CMAKE_BINARY_DIR}/dropbear/bin/dropbearmulti")
        install(DIRECTORY "${CMAKE_BINARY_DIR}/dropbear" DESTINATION . COMPONENT hooks USE_SOURCE_PERMISSIONS OPTIONAL)
    else()
        message(STATUS "Not building Dropbear: musl-gcc is missing (Debian package 'musl-tools'). "
                       "packaging/dropbear/build can build it later")
    endif()
endif()
