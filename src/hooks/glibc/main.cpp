#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "hooks/glibc/replacement_plan.hpp"
#include "hooks/kit/library_search.hpp"
#include "hooks/kit/linker_cache.hpp"
#include "hooks/kit/root_editor.hpp"
#include "hooks/kit/root_files.hpp"
#include "hooks/kit/run_hook.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

/// All files of the container which bear the name of a host library or of a part of glibc.
std::vector<glibc::ContainerFile> collectFiles(const std::vector<HostLibrary>& host, const LibrarySearch& search) {
    std::set<std::string, std::less<>> names;
    for (const auto& library : host) {
        names.insert(library.soname());
    }
    for (const auto part : glibc::partsOfGlibc()) {
        names.emplace(part);
    }
    const auto isWanted = [&](std::string_view name) { return names.contains(name); };
    std::vector<glibc::ContainerFile> files;
    for (auto& found : search.findAll(host.front().elf, isWanted, ElfDetail::soname)) {
        auto name = found.path.substr(found.path.rfind('/') + 1);
        files.push_back({std::move(found.path), std::move(name)});
    }
    // The programs name their dynamic linker by its path: it counts wherever the libraries are searched.
    for (const auto& linker : search.linkers()) {
        const std::string path(linker.path);
        const auto isSame = [&](const glibc::ContainerFile& file) { return file.path == path; };
        if (linker.library == CLibrary::glibc && std::none_of(files.begin(), files.end(), isSame) &&
            search.open(host.front().elf, path, ElfDetail::soname)) {
            files.push_back({path, path.substr(path.rfind('/') + 1)});
        }
    }
    return files;
}

constexpr std::size_t kMaxLibrarySize = 64U << 20U;

/// The release that a C library names; nullopt if it cannot be read as a whole.
template <typename Reader>
std::optional<glibc::Version> releaseOf(const Reader& read) {
    try {
        const auto bytes = read();
        return bytes ? glibc::releaseIn(*bytes) : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;
    }
}

/// /lib64 as documented; where the container has none (Debian on arm64), the directory of its C library.
std::string directoryOfAdded(int root, const std::string& cLibrary) {
    const auto place = tryOpenInRoot(root, "/lib64");
    struct stat status {};
    const bool isDirectory = place && ::fstat(place.get(), &status) == 0 && S_ISDIR(status.st_mode);
    return isDirectory ? "/lib64" : cLibrary.substr(0, cLibrary.rfind('/'));
}

void replace(const glibc::ReplacementPlan& plan, const LibrarySearch& search, int root, const HookLog& log) {
    const RootEditor editor(root);
    bool isAdded = false;
    for (const auto& replacement : plan.replacements) {
        for (const auto& destination : replacement.destinations) {
            editor.bind(replacement.hostPath, destination, {.readonly = true, .nodev = true},
                        RootEditor::Destination::notTheKernels);
            log.info(cat("Mounted ", printable(replacement.hostPath), " on the container's ", printable(destination)));
        }
        isAdded = isAdded || replacement.isAdded;
    }
    // The host's dynamic linker may have other built-in directories than the container's: the cache tells it where things are.
    if (isAdded || !search.hasCache()) {
        try {
            updateLinkerCache(root);
        } catch (const Error& error) {
            if (error.errnum() != EROFS) {
                throw;
            }
            log.warn(error.what());
        }
    }
}

void runAsHook(HookContext& context, const HookEnvironment& environment, const HookLog& log) {
    const auto paths = parsePathList("GLIBC_LIBS", environment.require("GLIBC_LIBS"));
    const int root = context.rootfs();
    glibc::ReplacementRequest request;
    for (const auto& path : paths) {
        request.hostLibraries.push_back(readHostLibrary(path));
    }
    const LibrarySearch search(root, {});
    const auto isCLibrary = [](const HostLibrary& library) { return glibc::isCLibraryName(library.fileName()); };
    const auto host = std::find_if(request.hostLibraries.begin(), request.hostLibraries.end(), isCLibrary);
    if (search.hasGlibc() && host != request.hostLibraries.end()) {
        if (auto found = search.find(host->elf, "libc.so.6")) {
            request.directoryOfAdded = directoryOfAdded(root, found->path);
            request.containerRelease = releaseOf([&] { return tryReadFileInRoot(root, found->path, kMaxLibrarySize); });
            request.hostRelease = releaseOf([&] { return std::optional(readFile(host->path, kMaxLibrarySize)); });
            request.containerCLibrary = std::move(found->elf);
        }
        request.containerFiles = collectFiles(request.hostLibraries, search);
    }
    const auto plan = glibc::planReplacement(request);
    if (plan.replacements.empty()) {
        log.info(cat("Not replacing anything: ", plan.reason));
        return;
    }
    printError(plan.announcement);
    for (const auto& warning : plan.warnings) {
        log.warn(warning);
    }
    replace(plan, search, root, log);
}

}  // namespace

int main() {
    return runHook("glibc-hook", runAsHook);
}
