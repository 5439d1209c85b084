# Debian's cross compiler for the architecture aarch64, with its libraries of that architecture: scripts/install-dependencies --aarch64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER ${CMAKE_LIBRARY_ARCHITECTURE}-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)  # sarus prints its manual page and completions
set(ENV{PKG_CONFIG_LIBDIR} "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pkgconfig:/usr/share/pkgconfig")
set(MUSL_GCC "${CMAKE_LIBRARY_ARCHITECTURE}-gcc -specs=/usr/lib/aarch64-linux-musl/musl-gcc.specs" CACHE STRING "C compiler that links with musl")
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
