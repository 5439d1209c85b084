# GCC with the address and undefined behaviour sanitizers; programs are linked dynamically then.
set(CMAKE_CXX_COMPILER g++)
set(SARUS_SANITIZERS "address,undefined" CACHE STRING "Sanitizers to build with")
