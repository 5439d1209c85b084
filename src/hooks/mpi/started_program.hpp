#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/kit/injection/need_lookup.hpp"
#include "hooks/kit/linker_cache/library_search.hpp"
#include "oci/runtime/bundle_config.hpp"

namespace sarus::hooks::mpi {

/// How the container's process is started: `process` of config.json.
struct StartedCommand {
    std::vector<std::string> arguments{};
    std::string workingDirectory{};
    std::string path{};         ///< PATH
    std::string libraryPath{};  ///< LD_LIBRARY_PATH
};

StartedCommand startedCommand(const oci::BundleConfig& config);

/// What a library of the container, given by its file name, means for the injection.
enum class LibraryUse {
    none,
    counterpart,  ///< a host library may replace it: what it needs does not count
    otherMpi      ///< an MPI that no host library replaces
};
using LibraryUseOf = std::function<LibraryUse(std::string_view fileName)>;

/// The dynamic linker's actions for the program that a command starts.
struct StartedProgram {
    std::string path{};                      ///< absolute, as seen inside; empty if unknown
    std::vector<FoundLibrary> libraries{};   ///< those that it loads and that have a use
    std::vector<std::string> directories{};  ///< its DT_RPATH, which also applies to its libraries' needs
    /// The symbol versions defined by each other library that it loads, by requested name.
    VersionsByName otherLibraries{};
};

/// Reads the command's program, or the interpreter if that is a script, and resolves what it needs as the
/// dynamic linker does: DT_RPATH (with those of the requesting files), LD_LIBRARY_PATH, DT_RUNPATH, linker
/// cache, built-in directories, and $ORIGIN. Does not follow counterparts. The result is empty if the
/// program is unknown, static, for another machine than `like`, or needs unreasonably much.
StartedProgram readStartedProgram(const StartedCommand& command, int root, const LibrarySearch& search,
                                  const ElfFile& like, const LibraryUseOf& useOf);

/// Whether a library is a part of the C library, which no program gets from elsewhere.
bool isOfCLibrary(std::string_view name);

/// All libraries that the library `path` and the files of `plugins` load on this node, in the order in which
/// the dynamic linker meets them, themselves and the parts of the C library left out. `missing` gets
/// "NAME, needed by FILE" for those that are not found for the library itself or its libraries; plug-ins that
/// lack one are not used on this node.
std::vector<FoundLibrary> readNeededLibraries(const std::string& path,
                                              const std::vector<std::string>& plugins,
                                              const LibrarySearch& search, std::string_view libraryPath,
                                              std::vector<std::string>& missing);

}  // namespace sarus::hooks::mpi
