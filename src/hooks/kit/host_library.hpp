#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hooks/kit/elf.hpp"
#include "hooks/kit/soname_version.hpp"

namespace sarus::hooks {

/// A library of the host named in a hook's configuration.
struct HostLibrary {
    std::string path;  ///< as configured
    LibraryName name;  ///< with the most complete version (resolveLibraryName)
    ElfFile elf;

    /// The last component of `path`.
    std::string fileName() const;
    /// The name by which other libraries request it: its SONAME, otherwise its file name.
    std::string soname() const;
};

/// The absolute paths of a colon-separated list, without empty and repeated parts. Throws Error, naming the
/// variable, for a relative path.
std::vector<std::string> parsePathList(std::string_view variable, std::string_view value);

/// Opens the library and reads its name and its ELF structures. Takes a version number missing in the file
/// names from the SONAME. A name that is not a library's counts as a name without version. Throws Error if it
/// is not a shared library.
HostLibrary readHostLibrary(const std::string& path);

/// Whether one program could load both files.
bool isSameMachine(const ElfFile& a, const ElfFile& b) noexcept;

/// Gives the name the version of the SONAME, if it has none and both name the same library.
void completeVersion(LibraryName& name, const ElfFile& elf);

}  // namespace sarus::hooks
