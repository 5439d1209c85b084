# GCC with the project's default settings.
set(CMAKE_CXX_COMPILER g++)
