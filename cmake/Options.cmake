# What can be chosen when the project is configured, and the compiler settings that follow from it.

option(ENABLE_UNIT_TESTS "Build the test programs and register all tests with CTest" ON)
option(ENABLE_TESTS_WITH_VALGRIND "Run the unit tests that need no root under valgrind" OFF)
option(ENABLE_FUZZERS "Build the fuzzers of tests/fuzz with libFuzzer (clang only)" OFF)
option(SARUS_SKIPS_FAIL "Count a skipped test as failed, as the continuous integration does" OFF)
option(ENABLE_SSH "Accepted for compatibility, without effect as long as the SSH hook is not part of this package" ON)
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
    add_compile_options(-fsanitize=${SARUS_SANITIZERS} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${SARUS_SANITIZERS})
endif()
if(ENABLE_FUZZERS)
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "ENABLE_FUZZERS needs clang: configure with -DCMAKE_CXX_COMPILER=clang++")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
add_link_options(-Wl,-z,relro,-z,now -Wl,--as-needed)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
