#include "hooks/mpi/library_family.hpp"

#include <algorithm>
#include <array>

namespace sarus::hooks::mpi {

namespace {

enum class Family { none, c, cxx, fortran };

struct Member {
    std::string_view stem;
    Family family;
};

constexpr std::array familyMembers{
    Member{"libmpi", Family::c},
    Member{"libmpich", Family::c},
    Member{"libmpicxx", Family::cxx},
    Member{"libmpichcxx", Family::cxx},
    Member{"libmpifort", Family::fortran},
    Member{"libmpichfort", Family::fortran},
    Member{"libmpichf90", Family::fortran},
    Member{"libfmpich", Family::fortran},
    Member{"libmpif90", Family::fortran},
};

constexpr std::array<std::string_view, 8> compilerNames{"gnu", "cray", "intel", "nvidia",
                                                        "pgi", "amd",  "aocc",  "clang"};

/// "_gnu", "_gnu_112": Cray's suffix for a compiler.
bool isCompilerSuffix(std::string_view suffix) noexcept {
    if (!suffix.starts_with('_')) {
        return false;
    }
    suffix.remove_prefix(1);
    const auto end = std::min(suffix.find('_'), suffix.size());
    if (std::find(compilerNames.begin(), compilerNames.end(), suffix.substr(0, end)) == compilerNames.end()) {
        return false;
    }
    const auto version = suffix.substr(end);
    return version.empty() || (version.size() > 1 &&
                               version.substr(1).find_first_not_of("0123456789") == std::string_view::npos);
}

Family familyOf(std::string_view linkerName) noexcept {
    constexpr std::string_view suffix = ".so";
    if (!linkerName.ends_with(suffix)) {
        return Family::none;
    }
    const auto stem = linkerName.substr(0, linkerName.size() - suffix.size());
    for (const auto& member : familyMembers) {
        if (stem.starts_with(member.stem)) {
            const auto rest = stem.substr(member.stem.size());
            if (rest.empty() || isCompilerSuffix(rest)) {
                return member.family;
            }
        }
    }
    return Family::none;
}

}  // namespace

bool isMpi(std::string_view linkerName) noexcept {
    // The standard ABI of MPI 5, and IBM Spectrum MPI.
    return familyOf(linkerName) == Family::c || linkerName == "libmpi_abi.so" ||
           linkerName == "libmpi_ibm.so";
}

bool isSameLibrary(std::string_view linkerName, std::string_view otherLinkerName) noexcept {
    const auto family = familyOf(linkerName);
    return linkerName == otherLinkerName || (family != Family::none && family == familyOf(otherLinkerName));
}

}  // namespace sarus::hooks::mpi
