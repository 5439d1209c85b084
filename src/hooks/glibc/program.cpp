#include "hooks/glibc/program.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "container_root/editor.hpp"
#include "container_root/root_files.hpp"
#include "hooks/glibc/replacement_plan.hpp"
#include "hooks/kit/linker_cache/library_search.hpp"
#include "hooks/kit/linker_cache/linker_cache.hpp"
#include "hooks/kit/run_hook.hpp"

namespace sarus::hooks {

namespace {

/// All files of the container that have the name of a host library or of a part of glibc.
std::vector<glibc::ContainerFile> collectFiles(const std::vector<HostLibrary>& host,
                                               const LibrarySearch& search) {
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
        auto name = fileNameOf(found.path);
        files.push_back({std::move(found.path), std::move(name)});
    }
    // The programs name their dynamic linker by its path, so it counts wherever libraries are searched.
    for (const auto& linker : search.linkers()) {
        const std::string path(linker.path);
        const auto isSame = [&](const glibc::ContainerFile& file) { return file.path == path; };
        if (linker.library == CLibrary::glibc && std::none_of(files.begin(), files.end(), isSame) &&
            search.open(host.front().elf, path, ElfDetail::soname)) {
            files.push_back({path, fileNameOf(path)});
        }
    }
    return files;
}

constexpr std::size_t maxLibrarySize = 64U << 20U;

/// The release that a part of a file names. Reads no further than to the banner: reading an image means
/// decompressing it.
std::optional<glibc::Version> releaseInRange(int file, const FileRange& range) {
    constexpr std::size_t atOnce = 16U << 10U;
    constexpr std::size_t longestBanner = 256;
    std::string bytes(atOnce + longestBanner, '\0');
    ElfBytes source(file);
    const auto size = std::min<std::uint64_t>(range.size, maxLibrarySize);
    for (std::uint64_t done = 0; done < size; done += atOnce) {
        bytes.resize(std::min<std::uint64_t>(size - done, atOnce + longestBanner));
        if (!source.read(range.offset + done, bytes.data(), bytes.size())) {
            return std::nullopt;
        }
        if (auto release = glibc::releaseIn(bytes)) {
            return release;
        }
    }
    return std::nullopt;
}

/// The release that a C library names; nullopt if there is none or it cannot be read. It is among the
/// constants, a fifth of the file.
std::optional<glibc::Version> readRelease(const UniqueFd& file, const ElfFile& elf) {
    if (!file) {
        return std::nullopt;
    }
    if (!elf.constants.empty()) {
        if (auto release = releaseInRange(file.get(), elf.constants.back())) {
            return release;
        }
    }
    try {
        return glibc::releaseIn(readAll(file.get(), maxLibrarySize, "the C library"));
    } catch (const Error&) {
        return std::nullopt;
    }
}

/// /lib64 as documented; if the container has none (Debian on arm64), the directory of its C library.
std::string directoryOfAdded(int root, const std::string& cLibrary) {
    const auto place = container_root::tryFindInRoot(root, "/lib64");
    struct stat status {};
    const bool isDirectory = place && ::fstat(place.get(), &status) == 0 && S_ISDIR(status.st_mode);
    return isDirectory ? "/lib64" : cLibrary.substr(0, cLibrary.rfind('/'));
}

void replace(const glibc::ReplacementPlan& plan, const LibrarySearch& search, int root,
             const HookLogger& log) {
    const container_root::Editor editor(root);
    bool isAdded = false;
    for (const auto& replacement : plan.replacements) {
        for (const auto& destination : replacement.destinations) {
            editor.bind(replacement.hostPath, destination, {.readonly = true, .nodev = true});
            log.info(cat("Mounted ", printable(replacement.hostPath), " on the container's ",
                         printable(destination)));
        }
        isAdded = isAdded || replacement.isAdded;
    }
    // The host's dynamic linker may have built-in directories that differ from the container's: the cache
    // gives it the right paths.
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

constexpr std::string_view usage =
    "Usage: glibc_hook                               (an OCI hook: reads the container's state)\n"
    "       glibc_hook --check                       (looks for mistakes in its configuration)\n"
    "       glibc_hook --explain [--root=DIRECTORY]  (shows what it would do and changes nothing)\n"
    "\n"
    "Replaces an older GNU C library of the container by the host's, whose files the variable GLIBC_LIBS "
    "lists.\n"
    "Without --root, --explain reads the container's state, too.\n";

glibc::ReplacementPlan makePlan(const HookSetup& setup, int root, const LibrarySearch& search) {
    glibc::ReplacementRequest request;
    const auto paths = parsePathList("GLIBC_LIBS", setup.environment.require("GLIBC_LIBS"));
    const auto isCLibrary = [](const std::string& path) {
        return glibc::isCLibraryName(std::string_view(path).substr(path.rfind('/') + 1));
    };
    if (const auto host = std::find_if(paths.begin(), paths.end(), isCLibrary); host != paths.end()) {
        request.hostLibraries.push_back(readHostLibrary(*host));
    }
    request.isMusl = !search.hasGlibc() && !search.linkers().empty();
    if (search.hasGlibc() && !request.hostLibraries.empty()) {
        const auto& host = request.hostLibraries.front();
        if (auto found = search.find(host.elf, "libc.so.6")) {
            request.containerRelease =
                readRelease(container_root::tryOpenFileInRoot(root, found->path), found->elf);
            request.hostRelease = readRelease(openFile(host.path, O_RDONLY), host.elf);
            request.containerCLibrary = std::move(found->elf);
            request.directoryOfAdded = directoryOfAdded(root, found->path);
        }
    }
    request.findFiles = [] { return std::vector<glibc::ContainerFile>(); };
    if (auto plan = glibc::planReplacement(request); plan.replacements.empty()) {
        return plan;  // decided by the C libraries alone
    }
    request.hostLibraries.clear();
    for (const auto& path : paths) {
        request.hostLibraries.push_back(readHostLibrary(path));
    }
    request.findFiles = [&] { return collectFiles(request.hostLibraries, search); };
    return glibc::planReplacement(request);
}

void check(const HookSetup& setup, Findings& findings) {
    bool hasCLibrary = false;
    for (const auto& path : parsePathList("GLIBC_LIBS", setup.environment.require("GLIBC_LIBS"))) {
        findings.attempt(
            [&] { hasCLibrary = glibc::isCLibraryName(readHostLibrary(path).fileName()) || hasCLibrary; });
    }
    if (!hasCLibrary && !findings.hasProblems()) {
        findings.problem("GLIBC_LIBS lists no C library (libc.so.6)");
    }
}

void explain(const HookSetup& setup, const ExplainRequest& request) {
    const int root = request.container().rootfs();
    const auto plan = makePlan(setup, root, LibrarySearch(root, {}));
    printLine(plan.replacements.empty() ? cat("nothing: ", plan.reason) : plan.announcement);
    for (const auto& warning : plan.warnings) {
        printLine(cat("warning: ", warning));
    }
    for (const auto& replacement : plan.replacements) {
        for (const auto& destination : replacement.destinations) {
            printLine(cat("mount ", printable(replacement.hostPath), " on ", printable(destination),
                          " (read-only)"));
        }
    }
}

void runAsHook(const HookSetup& setup, HookContext& context, const HookLogger& log) {
    const int root = context.rootfs();
    const LibrarySearch search(root, {});
    const auto plan = makePlan(setup, root, search);
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

HookProgram glibc::program() {
    return {.program = "glibc_hook",
            .logName = "glibc-hook",
            .usage = usage,
            .variables = {"GLIBC_LIBS", "LDD_PATH", "LDCONFIG_PATH", "READELF_PATH"},
            .check = check,
            .explain = explain,
            .run = runAsHook};
}

}  // namespace sarus::hooks
