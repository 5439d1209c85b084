# What older distributions lack: parts of the system's and of C++20's headers, and libraries that are nothing but headers.

# Linux 6.1, glibc 2.36 and gcc 11 have all that the sources need.
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("
    #include <latch>
    #include <linux/fuse.h>
    #include <linux/mount.h>
    #include <sys/mount.h>
    #include <sys/syscall.h>
    int main() { return SYS_openat2 + SYS_quotactl_fd + FUSE_TMPFILE + static_cast<int>(sizeof(mount_attr)); }
" SARUS_HEADERS_ARE_RECENT)
if(NOT SARUS_HEADERS_ARE_RECENT)
    add_compile_options(-idirafter "${CMAKE_SOURCE_DIR}/cmake/older_systems" -include older_systems.h)
endif()

set(SARUS_HEADERS_DIR "" CACHE PATH "Directory with nlohmann/json.hpp or toml++/toml.h, for distributions that lack them or have older ones")

# sarus_find_headers(): the target nlohmann_json::nlohmann_json and TOMLPLUSPLUS_INCLUDE_DIR, of the distribution or else of SARUS_HEADERS_DIR.
macro(sarus_find_headers)
    find_package(nlohmann_json 3.11 QUIET)
    find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h HINTS "${SARUS_HEADERS_DIR}")
    if(NOT nlohmann_json_FOUND)
        find_path(NLOHMANN_JSON_INCLUDE_DIR nlohmann/json.hpp PATHS "${SARUS_HEADERS_DIR}" NO_DEFAULT_PATH)
        set(nlohmann_json_VERSION "${SARUS_HEADERS_DIR}")
        add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
        set_target_properties(nlohmann_json::nlohmann_json PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${NLOHMANN_JSON_INCLUDE_DIR}")
    endif()
    if(NOT TOMLPLUSPLUS_INCLUDE_DIR OR (NOT nlohmann_json_FOUND AND NOT NLOHMANN_JSON_INCLUDE_DIR))
        message(FATAL_ERROR "The headers of toml++ 3 or nlohmann-json 3.11 are missing. Install them (Debian: libtomlplusplus-dev nlohmann-json3-dev), "
                            "or name a directory with toml++/toml.h and nlohmann/json.hpp: -DSARUS_HEADERS_DIR=DIR")
    endif()
endmacro()
