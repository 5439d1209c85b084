#include "hooks/kit/linker_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "hooks/kit/atomic_root_file.hpp"
#include "hooks/kit/root_files.hpp"

namespace sarus::hooks {

namespace {

constexpr std::size_t kMaxCacheSize = 16U << 20U;
constexpr std::size_t kMaxLibraries = 100000;

struct CloseDir {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

std::unique_ptr<DIR, CloseDir> listDirectory(int fd) {
    UniqueFd copy(::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::unique_ptr<DIR, CloseDir> stream(copy ? ::fdopendir(copy.get()) : nullptr);
    if (stream) {
        copy.release();  // now the stream's
    }
    return stream;
}

/// One directory that is scanned: a library directory, or a subdirectory of its glibc-hwcaps.
struct ScanPlace {
    std::string path;
    int fd;
    std::string hwcapsSubdirectory;
};

/// The places of all directories; owns the descriptors of the subdirectories.
struct ScanPlaces {
    std::vector<ScanPlace> places;
    std::vector<UniqueFd> owned;
};

ScanPlaces scanPlaces(const std::vector<LibraryDirectory>& directories) {
    ScanPlaces result;
    for (const auto& directory : directories) {
        constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        if (const UniqueFd hwcaps(::openat(directory.fd.get(), "glibc-hwcaps", flags)); hwcaps) {
            const auto stream = listDirectory(hwcaps.get());
            while (const dirent* entry = stream ? ::readdir(stream.get()) : nullptr) {
                const std::string name = entry->d_name;
                UniqueFd fd(name.starts_with('.') ? -1 : ::openat(hwcaps.get(), name.c_str(), flags));
                if (fd) {
                    result.places.push_back({cat(directory.path, "/glibc-hwcaps/", name), fd.get(), name});
                    result.owned.push_back(std::move(fd));
                }
            }
        }
        result.places.push_back({directory.path, directory.fd.get(), {}});
    }
    return result;
}

bool isLibraryName(std::string_view name) {
    const bool start =
        name.starts_with("lib") || name.starts_with("ld-") || name.starts_with("ld.so.") || name.starts_with("ld64.so.");
    // Package managers write these beside the real files while they work.
    const bool temporary =
        name.ends_with(".dpkg-new") || name.ends_with(".dpkg-tmp") || name.find(".#prelink#") != std::string_view::npos;
    return start && name.find(".so") != std::string_view::npos && !temporary;
}

/// What counts of an ELF library.
struct Library {
    std::string soname;  ///< empty if it has none
    std::uint32_t flags = 0;
};

std::optional<Library> readLibrary(int fd) {
    try {
        const auto elf = readElf(fd, ElfDetail::soname);
        const auto flags = elf && elf->isDynamic ? ldCacheFlags(*elf) : std::nullopt;
        // A SONAME with a slash cannot be the name of a file in the directory.
        if (!flags || (elf->soname && elf->soname->find('/') != std::string::npos)) {
            return std::nullopt;
        }
        return Library{elf->soname.value_or(""), *flags};
    } catch (const Error&) {
        return std::nullopt;  // the dynamic linker could not use it either
    }
}

/// Scans one directory after the other; remembers the files that were reached through symbolic links.
class Scanner {
public:
    explicit Scanner(int rootFd) : root(rootFd) {}

    void scan(const ScanPlace& place) {
        const auto [files, links] = list(place);
        std::unordered_map<std::string, Library> libraries;
        for (const auto& name : files) {
            const UniqueFd fd(::openat(place.fd, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
            if (auto library = fd ? readLibrary(fd.get()) : std::nullopt) {
                libraries.emplace(name, std::move(*library));
            }
        }
        std::unordered_map<std::string, Library> linked;
        for (const auto& name : links) {
            if (auto library = followLink(place, name, libraries)) {
                linked.emplace(name, std::move(*library));
            }
        }
        appendRecords(place, libraries, linked);
        if (records.size() > kMaxLibraries) {
            throw Error("The container has more than 100000 libraries in its library directories");
        }
    }

    std::vector<LdCacheRecord> records;

private:
    struct Names {
        std::vector<std::string> files;
        std::vector<std::string> links;
    };

    static Names list(const ScanPlace& place) {
        Names names;
        const auto stream = listDirectory(place.fd);
        while (const dirent* entry = stream ? ::readdir(stream.get()) : nullptr) {
            if (!isLibraryName(entry->d_name)) {
                continue;
            }
            auto type = entry->d_type;
            if (type == DT_UNKNOWN) {
                struct stat status {};
                if (::fstatat(place.fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
                    type = static_cast<unsigned char>(IFTODT(status.st_mode));
                }
            }
            if (type == DT_REG) {
                names.files.emplace_back(entry->d_name);
            } else if (type == DT_LNK) {
                names.links.emplace_back(entry->d_name);
            }
        }
        return names;
    }

    std::optional<Library> followLink(const ScanPlace& place, const std::string& name,
                                      const std::unordered_map<std::string, Library>& libraries) {
        // Nearly all links lead to a file beside them, which has been read already.
        std::string current = name;
        for (int step = 0; step < 8; ++step) {
            char target[PATH_MAX];
            const auto length = ::readlinkat(place.fd, current.c_str(), target, sizeof target);
            if (length <= 0) {
                break;
            }
            current.assign(target, static_cast<std::size_t>(length));
            if (const auto found = libraries.find(current); found != libraries.end()) {
                return found->second;
            }
            if (current.find('/') != std::string::npos) {
                break;
            }
        }
        const auto target = tryOpenInRoot(root, cat(place.path, '/', name));
        struct stat status {};
        if (!target || ::fstat(target.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
            return std::nullopt;
        }
        const std::pair key(status.st_dev, status.st_ino);
        if (const auto found = known.find(key); found != known.end()) {
            return found->second;
        }
        const UniqueFd fd(::open(descriptorPath(target.get()).c_str(), O_RDONLY | O_CLOEXEC));
        return known.emplace(key, fd ? readLibrary(fd.get()) : std::nullopt).first->second;
    }

    /// The name under which a file or link is asked for.
    static const std::string& keyOf(const std::string& name, const Library& library, bool isLink) {
        const bool developmentLink = isLink && name.ends_with(".so") && library.soname.starts_with(name);
        return library.soname.empty() || developmentLink ? name : library.soname;
    }

    void appendRecords(const ScanPlace& place, const std::unordered_map<std::string, Library>& files,
                       const std::unordered_map<std::string, Library>& links) {
        std::map<std::pair<std::string_view, std::uint32_t>, std::string_view> best;
        const auto consider = [&](const std::string& name, const Library& library, bool isLink) {
            const auto& key = keyOf(name, library, isLink);
            const auto [position, isNew] = best.emplace(std::pair(std::string_view(key), library.flags), name);
            if (isNew || position->second == key) {
                return;
            }
            if (name == key || compareLibraryNames(name, position->second) > 0) {
                position->second = name;
            }
        };
        for (const auto& [name, library] : files) {
            consider(name, library, false);
        }
        for (const auto& [name, library] : links) {
            consider(name, library, true);
        }
        for (const auto& [key, name] : best) {
            records.push_back({std::string(key.first), cat(place.path, '/', name), key.second, place.hwcapsSubdirectory});
        }
    }

    int root;
    std::map<std::pair<dev_t, ino_t>, std::optional<Library>> known;
};

std::vector<LdCacheRecord> scan(int root, const ScanPlaces& places) {
    Scanner scanner(root);
    for (const auto& place : places.places) {
        scanner.scan(place);
    }
    return std::move(scanner.records);
}

void appendStatus(std::string& out, const struct stat& status) {
    out += cat(' ', status.st_ino, ' ', status.st_mtim.tv_sec, '.', status.st_mtim.tv_nsec, ' ', status.st_ctim.tv_sec, '.',
               status.st_ctim.tv_nsec);
}

/// A path in the notation of /proc/self/mountinfo.
std::string mountinfoPath(const std::string& path) {
    std::string result;
    for (const char c : path) {
        if (c == ' ' || c == '\t' || c == '\n' || c == '\\') {
            constexpr char digits[] = "01234567";
            const auto value = static_cast<unsigned char>(c);
            result += {'\\', digits[value >> 6U], digits[(value >> 3U) & 7U], digits[value & 7U]};
        } else {
            result += c;
        }
    }
    return result;
}

/// Describes the mounts on entries of the places: a file which is mounted over a library does not change its directory's times.
/// nullopt if the mounts cannot be read.
std::optional<std::string> describeMounts(const ScanPlaces& places) {
    std::map<std::string, int> byPath;
    std::string table;
    try {
        for (const auto& place : places.places) {
            byPath.emplace(mountinfoPath(pathOfDescriptor(place.fd)), place.fd);
        }
        table = readFile("/proc/self/mountinfo");
    } catch (const Error&) {
        return std::nullopt;
    }
    std::string result;
    for (const auto& line : split(table, '\n')) {
        const auto words = splitWords(line);
        const auto slash = words.size() > 4 ? words[4].rfind('/') : std::string::npos;
        if (slash == std::string::npos) {
            continue;
        }
        const auto place = byPath.find(words[4].substr(0, slash));
        if (place == byPath.end()) {
            continue;
        }
        const auto name = words[4].substr(slash + 1);
        struct stat status {};
        result += cat(words[2], ' ', words[3], ' ', words[4]);
        // An escaped name is not found here: its mount is described without its status, which is only a little less precise.
        if (::fstatat(place->second, name.c_str(), &status, 0) == 0) {
            appendStatus(result, status);
        }
        result += '\n';
    }
    return result;
}

/// Describes everything that a cache depends on; empty if that is not possible.
std::string describe(const ScanPlaces& places) {
    std::string result = "1\n";
    for (const auto& place : places.places) {
        struct stat status {};
        if (::fstat(place.fd, &status) != 0) {
            return {};
        }
        result += place.path;
        appendStatus(result, status);
        result += '\n';
    }
    const auto mounts = describeMounts(places);
    return mounts ? result + *mounts : std::string{};
}

std::optional<std::string> readCache(int root) {
    try {
        return tryReadFileInRoot(root, "/etc/ld.so.cache", kMaxCacheSize);
    } catch (const Error&) {
        return std::nullopt;  // too large to be one: as good as none
    }
}

bool carriesStamp(const std::optional<std::string>& cache, const std::string& stamp) {
    try {
        return cache && !stamp.empty() && LdCache::parse(*cache).stamp() == stamp;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

std::vector<LdCacheRecord> scanLibraries(int root, const std::vector<LibraryDirectory>& directories) {
    return scan(root, scanPlaces(directories));
}

LinkerCacheUpdate updateLinkerCache(int root) {
    auto linkers = findDynamicLinkers(root);
    std::erase_if(linkers, [](const DynamicLinker& linker) { return linker.library != CLibrary::glibc; });
    if (linkers.empty() || !tryOpenDirectoryInRoot(root, "/etc")) {
        return LinkerCacheUpdate::notNeeded;
    }
    const auto directories = librarySearchDirectories(root, linkers);
    const auto places = scanPlaces(directories);
    const auto stamp = describe(places);
    if (carriesStamp(readCache(root), stamp)) {
        return LinkerCacheUpdate::unchanged;
    }
    replaceFileInRoot(root, "/etc/ld.so.cache", serializeLdCache(scan(root, places), stamp), 0644);
    return LinkerCacheUpdate::written;
}

void updateLinkerCacheIfPossible(int root, const HookLog& log) {
    try {
        updateLinkerCache(root);
    } catch (const Error& error) {
        if (error.errnum() != EROFS && error.errnum() != EXDEV) {
            throw;
        }
        log.warn(error.what());
    }
}

std::vector<LdCacheRecord> containerLibraries(int root) {
    const auto linkers = findDynamicLinkers(root);
    const bool isGlibc =
        std::any_of(linkers.begin(), linkers.end(), [](const auto& linker) { return linker.library == CLibrary::glibc; });
    if (const auto bytes = isGlibc ? readCache(root) : std::nullopt) {
        try {
            const auto cache = LdCache::parse(*bytes);
            std::vector<LdCacheRecord> records;
            records.reserve(cache.entries().size());
            for (const auto& entry : cache.entries()) {
                records.push_back(
                    {std::string(entry.name), std::string(entry.path), entry.flags, std::string(entry.hwcapsSubdirectory)});
            }
            return records;
        } catch (const Error&) {
            // A damaged cache is ignored by the dynamic linker, too.
        }
    }
    return scanLibraries(root, librarySearchDirectories(root, linkers));
}

}  // namespace sarus::hooks
