#include "hooks/mpi/suggest.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "hooks/mpi/started_program.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::hooks::mpi {

namespace {

void addOnce(std::vector<std::string>& list, const std::string& element) {
    if (!element.empty() && std::find(list.begin(), list.end(), element) == list.end()) {
        list.push_back(element);
    }
}

std::vector<std::string> sortedEntries(const std::string& path) {
    std::vector<std::string> names;
    Directory directory(path, Missing::isEmpty);
    while (const char* name = directory.next()) {
        names.emplace_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

/// The library under its SONAME, by which other libraries ask for it, if that name is beside it.
std::string bySoname(const std::string& path, const ElfFile& elf) {
    for (const auto& file : {path, realPath(path)}) {
        auto named = cat(directoryOf(file), '/', elf.soname.value_or(fileNameOf(file)));
        if (!realPath(named).empty() && realPath(named) == realPath(path)) {
            return named;
        }
    }
    return path;
}

bool startsLike(std::string_view name, std::string_view stem) {
    return name.starts_with(stem) && name.substr(stem.size()).starts_with(".so");
}

/// The MPI library itself, then those of its languages: they lie beside it and need it.
std::vector<std::string> findLanguages(const std::string& path, const ElfFile& elf) {
    std::vector<std::string> result{path};
    const auto soname = elf.soname.value_or(fileNameOf(path));
    const auto directory = directoryOf(path);
    for (const auto& name : sortedEntries(directory)) {
        if (!(name.starts_with("libmpi") || name.starts_with("libfmpich")) || !parseLibraryName(name)) {
            continue;
        }
        try {
            const auto candidate = readHostLibrary(cat(directory, '/', name));
            const auto& needed = candidate.elf.needed;
            if (candidate.soname() == name && isSameMachine(candidate.elf, elf) &&
                std::find(needed.begin(), needed.end(), soname) != needed.end()) {
                result.push_back(candidate.path);
            }
        } catch (const Error&) {
            continue;  // a linker script or a damaged file is no library to mount
        }
    }
    return result;
}

/// Where a library looks for its plug-ins, from its own directory; an absolute path is where its
/// configuration is.
struct PluginPlace {
    std::string_view library;
    std::string_view directory;
};
constexpr std::array pluginPlaces{
    PluginPlace{"libucs", "ucx"},
    PluginPlace{"libfabric", "libfabric"},
    PluginPlace{"libfabric", "prov"},  // Intel MPI
    PluginPlace{"libibverbs", "libibverbs"},
    PluginPlace{"libibverbs", "/etc/libibverbs.d"},
    PluginPlace{"libopen-pal", "openmpi"},
    PluginPlace{"libopen-pal", "../share/openmpi"},
    PluginPlace{"libopen-pal", "../etc/openmpi-mca-params.conf"},
    PluginPlace{"libopen-pal", "/usr/share/openmpi"},
    PluginPlace{"libopen-pal", "/etc/openmpi"},
    PluginPlace{"libpmix", "pmix"},
    PluginPlace{"libpmix", "../share/pmix"},
    PluginPlace{"libpmix", "/usr/share/pmix"},
};

/// Libraries that Intel MPI loads by itself, from its own directory.
constexpr std::array<std::string_view, 3> bundledLibraries{"../libfabric/lib/libfabric.so.1",
                                                           "../../libfabric/lib/libfabric.so.1",
                                                           "../opt/mpi/libfabric/lib/libfabric.so.1"};

std::vector<std::string> pluginDirectoriesOf(const std::string& library) {
    std::vector<std::string> result;
    const auto real = realPath(library);
    for (const auto& place : pluginPlaces) {
        if (!startsLike(fileNameOf(library), place.library)) {
            continue;
        }
        const bool isAbsolute = place.directory.starts_with('/');
        // The library of a system directory shares its neighbours with others: /usr/lib/../etc is none of
        // its.
        for (const auto& base : {directoryOf(library), directoryOf(real)}) {
            const auto found = isAbsolute ? std::string(place.directory) : cat(base, '/', place.directory);
            if (isAbsolute && !library.starts_with("/usr/") && !library.starts_with("/lib")) {
                continue;  // it has its own prefix
            }
            if (pathExists(found)) {
                addOnce(result, realPath(found));
            }
        }
    }
    return result;
}

/// The shared objects of a directory and its subdirectories, as far as plug-ins lie.
void addPlugins(const std::string& directory, int depth, std::vector<std::string>& plugins) {
    for (const auto& name : sortedEntries(directory)) {
        const auto path = cat(directory, '/', name);
        if (isDirectory(path)) {
            if (depth > 0) {
                addPlugins(path, depth - 1, plugins);
            }
        } else if (name.find(".so") != std::string::npos) {
            plugins.push_back(path);
        }
    }
}

bool isDevice(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode));
}

/// Devices of fast networks and of memory that processes share. Each device has its own entry: the hook can
/// allow a device, and not a directory of devices.
std::vector<std::string> findDevices() {
    constexpr std::array<std::string_view, 7> beginnings{"cxi",  "hfi1",  "ipath", "kgni",
                                                         "knem", "xpmem", "gdrdrv"};
    std::vector<std::string> result;
    for (const auto& name : sortedEntries("/dev")) {
        const auto path = cat("/dev/", name);
        if (std::any_of(beginnings.begin(), beginnings.end(),
                        [&](auto text) { return name.starts_with(text); }) &&
            isDevice(path)) {
            result.push_back(path);
        }
    }
    for (const auto& name : sortedEntries("/dev/infiniband")) {
        if (const auto path = cat("/dev/infiniband/", name); isDevice(path)) {
            result.push_back(path);
        }
    }
    if (isDirectory("/dev/hugepages")) {
        result.emplace_back("/dev/hugepages");
    }
    return result;
}

bool isBelow(const std::string& path, const std::vector<std::string>& directories) {
    return std::any_of(directories.begin(), directories.end(),
                       [&](const auto& directory) { return path.starts_with(cat(directory, '/')); });
}

/// Follows libraries to their plug-ins and plug-ins to their libraries until nothing new is found.
class Collector {
public:
    Collector(const std::string& theLibrary, const std::string& theLibraryPath)
        : library(theLibrary),
          libraryPath(theLibraryPath),
          root(openFile("/", O_PATH | O_DIRECTORY)),
          search(root.get(), theLibraryPath) {}

    void collect(const std::vector<std::string>& languages, Suggestion& suggestion) {
        std::vector<std::string> extra(languages.begin() + 1, languages.end());
        for (const auto bundled : bundledLibraries) {
            if (const auto path = cat(directoryOf(library), '/', bundled); pathExists(path)) {
                addOnce(extra, cat(realPath(directoryOf(path)), '/', fileNameOf(path)));
                addOnce(dependencies, extra.back());
            }
        }
        std::vector<std::string> missing;
        std::size_t known = 0;
        do {
            known = directories.size();
            auto files = extra;
            for (const auto& directory : directories) {
                addPlugins(directory, 2, files);
            }
            missing.clear();
            const auto found = readNeededLibraries(library, files, search, libraryPath, missing);
            for (const auto& dependency : found) {
                addOnce(dependencies, dependency.path);
            }
            for (const auto& path : dependencies) {
                for (const auto& directory : pluginDirectoriesOf(path)) {
                    addOnce(directories, directory);
                }
            }
        } while (directories.size() != known);
        for (const auto& need : missing) {
            suggestion.notes.push_back(cat("not found on this node: ", printable(need)));
        }
        for (const auto& path : dependencies) {
            const auto isLanguage = [&](const auto& other) { return realPath(other) == realPath(path); };
            if (!isBelow(path, directories) && std::none_of(languages.begin(), languages.end(), isLanguage)) {
                suggestion.dependencies.push_back(path);
            }
        }
        suggestion.bindMounts = directories;
        for (const auto& directory : directories) {
            addLinkedFiles(directory, suggestion.bindMounts);
        }
    }

private:
    /// Plug-ins that are links to files elsewhere, which the container needs at the same path.
    void addLinkedFiles(const std::string& directory, std::vector<std::string>& mounts) const {
        std::vector<std::string> plugins;
        addPlugins(directory, 2, plugins);
        for (const auto& plugin : plugins) {
            if (const auto real = realPath(plugin); !real.empty() && !isBelow(real, directories)) {
                addOnce(mounts, real);
            }
        }
    }

    const std::string& library;
    const std::string& libraryPath;
    UniqueFd root;
    LibrarySearch search;
    std::vector<std::string> dependencies;
    std::vector<std::string> directories;
};

std::string findLibrary(const std::string& name, const std::string& libraryPath) {
    if (name.find('/') == std::string::npos) {
        const auto root = openFile("/", O_PATH | O_DIRECTORY);
        const LibrarySearch search(root.get(), libraryPath);
        if (const auto self = readElf(openFile("/proc/self/exe", O_RDONLY).get())) {
            if (const auto found = search.find(*self, name)) {
                return found->path;
            }
        }
        throw Error(cat("There is no library ", printable(name)), "Name its path");
    }
    return name.starts_with('/') ? name : realPath(name);
}

std::string quoted(const std::string& text) {
    return oci::JsonWriter().value(text).text();
}

}  // namespace

Suggestion suggest(const std::string& path, const std::string& libraryPath) {
    const auto found = findLibrary(path, libraryPath);
    const auto given = readHostLibrary(found.empty() ? path : found);
    const auto library = bySoname(given.path, given.elf);
    Suggestion result{.mpiLibraries = findLanguages(library, given.elf)};
    if (describeMpi(readHostLibrary(library)).empty()) {
        result.notes.push_back(cat(printable(library), " does not look like an MPI library"));
    }
    Collector(library, libraryPath).collect(result.mpiLibraries, result);
    for (const auto& directory : result.bindMounts) {
        if (directory.ends_with("/prov")) {
            result.notes.push_back(
                cat("set FI_PROVIDER_PATH=", printable(directory),
                    " in the key `environment` of sarus.json: libfabric looks there for its "
                    "providers"));
        }
    }
    const auto devices = findDevices();
    result.bindMounts.insert(result.bindMounts.end(), devices.begin(), devices.end());
    return result;
}

std::string formatHookFile(const Suggestion& suggestion, const std::string& hook) {
    std::vector<std::string> lines{
        cat("            ", quoted(cat("MPI_LIBS=", join(suggestion.mpiLibraries, ":"))))};
    const auto add = [&](std::string_view name, const std::vector<std::string>& paths) {
        if (!paths.empty()) {
            lines.push_back(cat("            ", quoted(cat(name, '=', join(paths, ":")))));
        }
    };
    add("MPI_DEPENDENCY_LIBS", suggestion.dependencies);
    add("BIND_MOUNTS", suggestion.bindMounts);
    return cat("{\n    \"version\": \"1.0.0\",\n    \"hook\": {\n        \"path\": ", quoted(hook),
               ",\n        \"env\": [\n", join(lines, ",\n"),
               "\n        ]\n    },\n    \"when\": {\n        \"annotations\": {\n"
               "            \"^com.hooks.mpi.enabled$\": \"^true$\"\n        }\n    },\n"
               "    \"stages\": [\n        \"createContainer\"\n    ]\n}\n");
}

std::vector<std::string> uncoveredNeeds(const std::vector<HostLibrary>& libraries,
                                        const std::vector<HostLibrary>& dependencies) {
    constexpr std::array<std::string_view, 4> ofCompilers{"libgcc_s", "libstdc++", "libgfortran",
                                                          "libquadmath"};
    std::set<std::string> covered;
    for (const auto* list : {&libraries, &dependencies}) {
        for (const auto& library : *list) {
            covered.insert({library.soname(), library.fileName()});
        }
    }
    std::vector<std::string> result;
    for (const auto* list : {&libraries, &dependencies}) {
        for (const auto& library : *list) {
            for (const auto& name : library.elf.needed) {
                const bool isUsual =
                    isOfCLibrary(name) || std::any_of(ofCompilers.begin(), ofCompilers.end(),
                                                      [&](auto stem) { return startsLike(name, stem); });
                if (!isUsual && !covered.contains(name)) {
                    addOnce(result, name);
                }
            }
        }
    }
    return result;
}

std::string describeMpi(const HostLibrary& library) {
    const auto name = library.fileName();
    const auto path = cat(realPath(library.path), '/');
    const auto lies = [&](std::string_view directory) { return path.find(directory) != std::string::npos; };
    const auto& needed = library.elf.needed;
    const bool isOpen = std::any_of(needed.begin(), needed.end(),
                                    [](const auto& other) { return startsLike(other, "libopen-pal"); });
    if (!name.starts_with("libmpi") && !name.starts_with("libfmpich")) {
        return {};
    }
    const std::string_view product = isOpen                                          ? "Open MPI"
                                     : name.starts_with("libmpi_abi")                ? "MPI standard ABI"
                                     : lies("/cray/") || name.starts_with("libmpi_") ? "Cray MPICH"
                                     : lies("/intel/") || lies("/impi/")             ? "Intel MPI"
                                     : lies("/mvapich")                              ? "MVAPICH"
                                                                                     : "MPICH";
    const auto major = library.name.majorNumber();
    const auto minor = library.name.minorNumber();
    return cat(product, major ? cat(" (ABI ", *major, minor ? cat('.', *minor) : "", ")") : "");
}

}  // namespace sarus::hooks::mpi
