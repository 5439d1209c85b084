# GCC, with coverage data written by every program (use with CMAKE_BUILD_TYPE=Debug).
set(CMAKE_CXX_COMPILER g++)
set(CMAKE_CXX_FLAGS_INIT "--coverage")
set(CMAKE_EXE_LINKER_FLAGS_INIT "--coverage")
