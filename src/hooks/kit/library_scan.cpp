#include "hooks/kit/library_scan.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "hooks/kit/elf.hpp"

namespace sarus::hooks {

namespace {

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
    std::vector<std::string> otherNames{};

    bool isNamed(std::string_view directory) const {
        return directory == path || std::find(otherNames.begin(), otherNames.end(), directory) != otherNames.end();
    }
};

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
        auto elf = readElf(fd, ElfDetail::soname);
        const auto flags = elf && elf->isDynamic ? ldCacheFlags(*elf) : std::nullopt;
        // A SONAME with a slash cannot be the name of a file in the directory.
        if (!flags || (elf->soname && elf->soname->find('/') != std::string::npos)) {
            return std::nullopt;
        }
        return Library{std::move(elf->soname).value_or(""), *flags};
    } catch (const Error&) {
        return std::nullopt;  // the dynamic linker could not use it either
    }
}

std::optional<Library> readLibrary(int directory, const std::string& name) {
    const UniqueFd fd(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    return fd ? readLibrary(fd.get()) : std::nullopt;
}

/// Scans one directory after the other; remembers the files that were reached through symbolic links.
class Scanner {
public:
    Scanner(int rootFd, const std::vector<LibraryDirectory>& directories) : root(rootFd) {
        for (const auto& directory : directories) {
            scanned.insert(directory.path);
            scanned.insert(directory.otherNames.begin(), directory.otherNames.end());
        }
    }

    void scanWithHwcaps(const LibraryDirectory& directory) {
        constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        if (const UniqueFd hwcaps(::openat(directory.fd.get(), "glibc-hwcaps", flags)); hwcaps) {
            const auto path = cat(directory.path, "/glibc-hwcaps");
            result.examined.push_back(path);
            const auto stream = listDirectory(hwcaps.get());
            while (const dirent* entry = stream ? ::readdir(stream.get()) : nullptr) {
                const std::string name = entry->d_name;
                if (const UniqueFd fd(name.starts_with('.') ? -1 : ::openat(hwcaps.get(), name.c_str(), flags)); fd) {
                    scan({cat(path, '/', name), fd.get(), name});
                }
            }
        }
        scan({directory.path, directory.fd.get(), {}, directory.otherNames});
    }

    LibraryScan finish() && {
        // Behind the directories, because each of those is followed by the names of its entries.
        result.examined.insert(result.examined.end(), elsewhere.begin(), elsewhere.end());
        return std::move(result);
    }

private:
    struct Names {
        std::vector<std::string> files;
        std::vector<std::string> links;
    };
    using Libraries = std::unordered_map<std::string, Library>;

    void scan(const ScanPlace& place) {
        result.examined.push_back(place.path);
        const auto [files, links] = list(place);
        Libraries libraries;
        libraries.reserve(files.size());
        for (const auto& name : files) {
            auto library = readLibrary(place.fd, name);
            // A file which is overwritten keeps its directory's times. That matters only if it gets another SONAME, which is not
            // to be expected where its name has the SONAME in it.
            if (!library || library->soname.empty() || !name.starts_with(library->soname)) {
                result.examined.push_back(name);
            }
            if (library) {
                libraries.emplace(name, std::move(*library));
            }
        }
        Libraries linked;
        linked.reserve(links.size());
        for (const auto& name : links) {
            if (auto library = followLink(place, name, libraries)) {
                linked.emplace(name, std::move(*library));
            }
        }
        appendRecords(place, libraries, linked);
        if (result.records.size() > kMaxLibraries) {
            throw Error("The container has more than 100000 libraries in its library directories");
        }
    }

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

    std::optional<Library> followLink(const ScanPlace& place, const std::string& name, const Libraries& libraries) {
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
            const auto slash = current.rfind('/');
            if (slash != std::string::npos) {
                if (!place.isNamed(std::string_view(current).substr(0, slash))) {
                    break;
                }
                current.erase(0, slash + 1);
                if (const auto found = libraries.find(current); found != libraries.end()) {
                    return found->second;
                }
            }
        }
        const auto path = cat(place.path, '/', name);
        // What is in another scanned directory is known to change with that directory.
        if (!scanned.contains(current.substr(0, current.rfind('/')))) {
            elsewhere.push_back(path);
        }
        const auto target = tryOpenInRoot(root, path);
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

    struct Key {
        std::string_view name;
        std::uint32_t flags;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const noexcept { return std::hash<std::string_view>{}(key.name) ^ key.flags; }
    };

    void appendRecords(const ScanPlace& place, const Libraries& files, const Libraries& links) {
        std::unordered_map<Key, std::string_view, KeyHash> best;
        best.reserve(files.size() + links.size());
        const auto consider = [&best](const std::string& name, const Library& library, bool isLink) {
            const Key key{keyOf(name, library, isLink), library.flags};
            const auto [position, isNew] = best.emplace(key, name);
            if (isNew || position->second == key.name) {
                return;
            }
            if (name == key.name || compareLibraryNames(name, position->second) > 0) {
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
            result.records.push_back({std::string(key.name), cat(place.path, '/', name), key.flags, place.hwcapsSubdirectory});
        }
    }

    int root;
    std::set<std::string> scanned;  ///< all names of the directories
    LibraryScan result;
    std::vector<std::string> elsewhere;  ///< links that lead out of their directory
    std::map<std::pair<dev_t, ino_t>, std::optional<Library>> known;
};

}  // namespace

LibraryScan scanLibraries(int root, const std::vector<LibraryDirectory>& directories) {
    Scanner scanner(root, directories);
    for (const auto& directory : directories) {
        scanner.scanWithHwcaps(directory);
    }
    return std::move(scanner).finish();
}

}  // namespace sarus::hooks
