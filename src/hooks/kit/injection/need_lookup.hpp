#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/kit/host_library.hpp"
#include "hooks/kit/linker_cache/library_search.hpp"

namespace sarus::hooks {

/// The symbol versions that libraries define, by the name under which they are requested.
using VersionsByName = std::map<std::string, std::vector<std::string>, std::less<>>;

/// A ProviderLookup (version_check.hpp): searches as the dynamic linker will for what a host library needs,
/// with the host's bind mounts in place. Its arguments must outlive it.
class NeedLookup {
public:
    /// `hostPaths`: files and directories of the host that the container will have at the same paths.
    /// `loaded`: what the container's program has loaded before. `libraryPath`: the container's
    /// LD_LIBRARY_PATH.
    NeedLookup(const LibrarySearch& theSearch, const std::vector<std::string>& theHostPaths,
               const VersionsByName& theLoaded, std::string_view libraryPath);

    std::optional<std::vector<std::string>> operator()(const HostLibrary& requester, const std::string& name);

private:
    std::optional<std::vector<std::string>> inDirectories(const ElfFile& like,
                                                          const std::vector<std::string>& directories,
                                                          const std::string& name) const;

    const LibrarySearch& search;
    const std::vector<std::string>& hostPaths;
    const VersionsByName& loaded;
    std::vector<std::string> libraryDirectories;
    std::map<std::string, std::optional<std::vector<std::string>>> known;
};

/// Whether a path is one of these or lies below one.
bool isBelowAny(const std::string& path, const std::vector<std::string>& directories);

}  // namespace sarus::hooks
