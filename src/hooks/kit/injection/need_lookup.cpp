#include "hooks/kit/injection/need_lookup.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "container_root/root_files.hpp"

namespace sarus::hooks {

bool isBelowAny(const std::string& path, const std::vector<std::string>& directories) {
    return std::any_of(directories.begin(), directories.end(), [&](const auto& directory) {
        return path == directory || path.starts_with(cat(directory, '/'));
    });
}

namespace {

std::optional<std::vector<std::string>> definitionsOfHostFile(const ElfFile& like, const std::string& path) {
    // The container's LD_LIBRARY_PATH influences the path, so use only the user's rights.
    const UniqueFd host(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto file = container_root::tryOpenFileInRoot(host.get(), path);
    try {
        auto elf = file ? readElf(file.get()) : std::nullopt;
        return elf && isSameMachine(*elf, like) ? std::optional(std::move(elf->versionDefinitions))
                                                : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace

NeedLookup::NeedLookup(const LibrarySearch& theSearch, const std::vector<std::string>& theHostPaths,
                       const VersionsByName& theLoaded, std::string_view libraryPath)
    : search(theSearch),
      hostPaths(theHostPaths),
      loaded(theLoaded),
      libraryDirectories(split(libraryPath, ':')) {}

std::optional<std::vector<std::string>> NeedLookup::operator()(const HostLibrary& requester,
                                                               const std::string& name) {
    // A name that the program has already loaded is not searched again.
    if (const auto first = loaded.find(name); first != loaded.end()) {
        return first->second;
    }
    if (auto found = inDirectories(requester.elf, split(requester.elf.rpath.value_or(""), ':'), name)) {
        return found;
    }
    if (auto found = inDirectories(requester.elf, split(requester.elf.runpath.value_or(""), ':'), name)) {
        return found;
    }
    if (auto found = inDirectories(requester.elf, libraryDirectories, name)) {
        return found;
    }
    auto [position, isNew] = known.emplace(name, std::nullopt);
    if (isNew) {
        if (auto found = search.find(requester.elf, name)) {
            position->second = std::move(found->elf.versionDefinitions);
        }
    }
    return position->second;
}

std::optional<std::vector<std::string>> NeedLookup::inDirectories(const ElfFile& like,
                                                                  const std::vector<std::string>& directories,
                                                                  const std::string& name) const {
    for (const auto& directory : directories) {
        if (!directory.starts_with('/') || directory.find('$') != std::string::npos) {
            continue;
        }
        const auto path = cat(directory, '/', name);
        if (isBelowAny(path, hostPaths)) {
            if (auto found = definitionsOfHostFile(like, path)) {
                return found;
            }
        }
        if (auto found = search.open(like, path, ElfDetail::everything)) {
            return std::move(found->elf.versionDefinitions);
        }
    }
    return std::nullopt;
}

}  // namespace sarus::hooks
