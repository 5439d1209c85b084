#pragma once

#include <string_view>

namespace sarus::hooks::mpi {

/// Whether two linker names ("libmpi.so") are names under which one library of the MPICH family is distributed: the C interface
/// is libmpi (MPICH, Intel MPI, MVAPICH), libmpich (Debian, older releases) or libmpi_gnu_112, libmpi_cray... (Cray, one for each
/// compiler); likewise the C++ and Fortran interfaces. Every name is its own family. libmpi_abi, the standard ABI of MPI 5, and
/// the libraries of Open MPI (libmpi_cxx, libmpi_mpifh) belong to no other name.
bool isSameLibrary(std::string_view linkerName, std::string_view otherLinkerName) noexcept;

/// Whether this is the library of the standard ABI of MPI 5.
bool isStandardAbi(std::string_view linkerName) noexcept;

}  // namespace sarus::hooks::mpi
