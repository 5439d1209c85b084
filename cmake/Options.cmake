# What can be chosen when the project is configured, and the compiler settings that follow from it.

option(ENABLE_UNIT_TESTS "Build the test programs and register all tests with CTest" ON)
option(ENABLE_TESTS_WITH_VALGRIND "Run the unit tests that do not need root under valgrind" OFF)
option(ENABLE_FUZZERS "Build the fuzzers of tests/fuzz with libFuzzer (clang only)" OFF)
option(SARUS_SKIPS_FAIL "Count a skipped test as failed, as the continuous integration does" OFF)
option(ENABLE_SSH "Build the SSH hook, and its SSH software if musl-gcc is installed" ON)
find_path(SLURM_INCLUDE_DIR slurm/spank.h)  # Debian: libslurm-dev
set(slurmFound OFF)
if(SLURM_INCLUDE_DIR)
    set(slurmFound ON)
endif()
option(ENABLE_SPANK "Build the plugin for Slurm (default: if Slurm's headers are found)" ${slurmFound})
if(ENABLE_SPANK AND NOT SLURM_INCLUDE_DIR)
    message(FATAL_ERROR "ENABLE_SPANK needs Slurm's header slurm/spank.h (Debian package libslurm-dev)")
endif()
option(ENABLE_PODMAN_HPC "Build and install podman-hpc, the Podman wrapper (component podman-hpc)" ON)
set(SARUS_SANITIZERS "" CACHE STRING "Sanitizers to build with, for example address,undefined (links dynamically)")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Werror
                    -fstack-protector-strong -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64)
if(CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo)$" AND NOT SARUS_SANITIZERS)
    add_compile_options(-D_FORTIFY_SOURCE=2)
endif()
if(SARUS_SANITIZERS)
    # Little optimisation and the lines alone: the build takes longer than the tests.
    add_compile_options(-O1 -g1 -fsanitize=${SARUS_SANITIZERS} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${SARUS_SANITIZERS})
    add_compile_definitions(SARUS_SANITIZED)
endif()
if(ENABLE_FUZZERS)
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "ENABLE_FUZZERS needs clang: configure with -DCMAKE_CXX_COMPILER=clang++")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
# A program has what it uses of a room, however the room is compiled.
add_compile_options(-ffunction-sections -fdata-sections)
add_link_options(-Wl,-z,relro,-z,now -Wl,--as-needed -Wl,--gc-sections)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
