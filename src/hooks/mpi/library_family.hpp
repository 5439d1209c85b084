#pragma once

#include <string_view>

namespace sarus::hooks::mpi {

/// Whether two linker names ("libmpi.so") denote the same library of the MPICH family, which is distributed
/// under several names: the C interface is libmpi (MPICH, Intel MPI, MVAPICH), libmpich (Debian, older
/// releases) or libmpi_gnu_112, libmpi_cray... (Cray, one for each compiler); likewise the C++ and Fortran
/// interfaces. Any other name is a family of its own, including libmpi_abi, the standard ABI of MPI 5, and
/// the libraries of Open MPI (libmpi_cxx, libmpi_mpifh).
bool isSameLibrary(std::string_view linkerName, std::string_view otherLinkerName) noexcept;

/// Whether a linker name denotes the C interface of an MPI, of whatever ABI: what makes the ranks of a job
/// find each other.
bool isMpi(std::string_view linkerName) noexcept;

}  // namespace sarus::hooks::mpi
