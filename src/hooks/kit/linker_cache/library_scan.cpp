#include "hooks/kit/linker_cache/library_scan.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/root_files.hpp"
#include "hooks/kit/linker_cache/library_files.hpp"

namespace sarus::hooks {

namespace {

constexpr std::size_t maxLibraries = 100000;
/// The maximum number of directories open at once, in addition to the caller's.
constexpr std::size_t maxOpenFolders = 64;
constexpr std::size_t maxFilesAtOnce = 20000;

/// A directory to scan: a library directory, or a subdirectory of its glibc-hwcaps.
struct Place {
    LibraryFolder folder;
    std::string hwcapsSubdirectory{};
    UniqueFd ownFd{};  ///< of a subdirectory
    const std::vector<std::string>* otherNames = nullptr;
    bool isNoted = false;                            ///< whether to note the results for the next scan, too
    LibraryTable::Directory known{};                 ///< the folder refers to it
    const EarlierScan::Folder* unchanged = nullptr;  ///< if set, nothing else is needed

    bool isNamed(std::string_view path) const {
        return path == folder.path ||
               (otherNames != nullptr &&
                std::find(otherNames->begin(), otherNames->end(), path) != otherNames->end());
    }
};

/// The names in a directory, without hidden ones.
std::vector<std::string> listNames(int directory, const std::string& path) {
    std::vector<std::string> names;
    auto entries = Directory::of(directory, path);
    while (const char* name = entries.next()) {
        if (name[0] != '.') {
            names.emplace_back(name);
        }
    }
    return names;
}

/// Scans directories, several at a time. Remembers the files reached through symbolic links.
class Scanner {
public:
    Scanner(int rootFd, const std::vector<LibraryDirectory>& directories, const EarlierScan& earlierScan)
        : root(rootFd), earlier(earlierScan), table(LibraryTable::parse(earlierScan.notes)) {
        struct stat status {};
        rootDevice = ::fstat(root, &status) == 0 ? status.st_dev : 0;
        for (const auto& directory : directories) {
            scanned.insert(directory.path);
            scanned.insert(directory.otherNames.begin(), directory.otherNames.end());
        }
    }

    void addWithHwcaps(const LibraryDirectory& directory) {
        constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        if (const UniqueFd list(::openat(directory.fd.get(), "glibc-hwcaps", flags));
            list && !container_root::isOfKernel(list.get())) {
            const auto path = cat(directory.path, "/glibc-hwcaps");
            result.examined.push_back(path);
            for (const auto& name : listNames(list.get(), path)) {
                if (UniqueFd fd(::openat(list.get(), name.c_str(), flags));
                    fd && !container_root::isOfKernel(fd.get())) {
                    const int number = fd.get();
                    add({{cat(path, '/', name), number}, name, std::move(fd)});
                }
            }
        }
        add({{directory.path, directory.fd.get()}, {}, {}, &directory.otherNames});
    }

    LibraryScan finish() && {
        scanAdded();
        // After the directories, because the names of its entries follow each directory.
        result.examined.insert(result.examined.end(), elsewhere.begin(), elsewhere.end());
        result.notes = std::move(notes).finish();
        return std::move(result);
    }

private:
    using FilesByName = std::unordered_map<std::string_view, const LibraryFile*>;

    /// A library found under a name.
    struct Found {
        const std::string* name;
        const Library* library;
        bool isLink;
    };

    void add(Place added) {
        auto& place = places.emplace_back(std::move(added));
        struct stat status {};
        // Inode numbers are meaningless if another filesystem may be there next time.
        place.isNoted = ::fstat(place.folder.fd, &status) == 0 && status.st_dev == rootDevice;
        place.folder.device = status.st_dev;
        place.unchanged = place.isNoted ? findUnchanged(place.folder.path) : nullptr;
        if (place.unchanged == nullptr && place.isNoted) {
            place.known = table.directory(place.folder.path);
            place.folder.known = &place.known;
        }
        if (places.size() == maxOpenFolders) {
            scanAdded();
        }
    }

    const EarlierScan::Folder* findUnchanged(const std::string& path) const {
        const auto found = earlier.unchanged.find(path);
        const auto* section = table.section(path);
        const bool isUsable =
            found != earlier.unchanged.end() && section != nullptr && section->isSelfContained;
        return isUsable ? &found->second : nullptr;
    }

    void scanAdded() {
        while (!places.empty()) {
            const auto count = readSome();
            for (std::size_t i = 0; i < count; ++i) {
                append(places.front());
                places.pop_front();
            }
        }
    }

    /// Reads the first places, limiting the number of files per round; returns the number of places.
    std::size_t readSome() {
        LibraryReader reader(clock);
        std::size_t files = 0;
        std::size_t count = 0;
        for (; count < places.size() && files < maxFilesAtOnce; ++count) {
            auto& place = places[count];
            if (place.unchanged == nullptr) {
                reader.add(place.folder);
                files += place.folder.files.size();
            }
        }
        reader.finish();
        return count;
    }

    void append(const Place& place) {
        result.examined.push_back(place.folder.path);
        if (place.unchanged != nullptr) {
            appendUnchanged(place);
        } else {
            appendScanned(place);
        }
        if (result.records.size() > maxLibraries) {
            throw Error("The container has more than 100000 libraries in its library directories");
        }
    }

    void appendUnchanged(const Place& place) {
        const auto& [records, names, links] = *place.unchanged;
        result.records.insert(result.records.end(), records.begin(), records.end());
        result.examined.insert(result.examined.end(), names.begin(), names.end());
        elsewhere.insert(links.begin(), links.end());
        notes.beginDirectory(place.folder.path, true);
        notes.addSection(table.section(place.folder.path)->bytes);
    }

    void appendScanned(const Place& place) {
        const auto& files = place.folder.files;
        FilesByName byName;
        byName.reserve(files.size());
        std::vector<Found> found;
        found.reserve(files.size());
        for (const auto& file : files) {
            byName.emplace(file.name, &file);
            if (file.isLink) {
                continue;
            }
            // Overwriting a file does not change its directory's times. That matters only if the SONAME
            // changes, which is unlikely if the file name contains the SONAME.
            if (!file.library || file.library->soname.empty() ||
                !file.name.starts_with(file.library->soname)) {
                result.examined.push_back(file.name);
            }
            if (file.library) {
                found.push_back({&file.name, &*file.library, false});
            }
        }
        bool isSelfContained = true;
        for (const auto& file : files) {
            if (const auto* library =
                    file.isLink ? followLink(place, file, byName, isSelfContained) : nullptr) {
                found.push_back({&file.name, library, true});
            }
        }
        appendRecords(place, found);
        if (place.isNoted) {
            notes.beginDirectory(place.folder.path, isSelfContained);
            for (const auto& file : files) {
                if (file.state) {
                    notes.add(file.name, *file.state, file.library ? &*file.library : nullptr);
                }
            }
        }
    }

    /// The library that a link leads to; null if there is none. Notes whether it leads to another scanned
    /// directory.
    const Library* followLink(const Place& place, const LibraryFile& link, const FilesByName& byName,
                              bool& isSelfContained) {
        // Nearly all links lead to a file beside them, which has been read already.
        std::string current = link.target;
        for (int step = 0; step < 8 && !current.empty(); ++step) {
            const auto slash = current.rfind('/');
            if (slash != std::string::npos) {
                if (!place.isNamed(std::string_view(current).substr(0, slash))) {
                    break;
                }
                current.erase(0, slash + 1);
            }
            const auto next = byName.find(current);
            if (next != byName.end() && !next->second->isLink) {
                return next->second->library ? &*next->second->library : nullptr;
            }
            current = next != byName.end() ? next->second->target : readLink(place.folder.fd, current);
        }
        const auto path = cat(place.folder.path, '/', link.name);
        // The times of another scanned directory reveal its changes.
        if (scanned.contains(current.substr(0, current.rfind('/')))) {
            isSelfContained = false;
        } else {
            elsewhere.insert(path);
        }
        return readElsewhere(path);
    }

    const Library* readElsewhere(const std::string& path) {
        const auto target = container_root::tryFindInRoot(root, path);
        struct stat status {};
        if (!target || ::fstat(target.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
            return nullptr;
        }
        const auto [position, isNew] = outside.try_emplace(std::pair(status.st_dev, status.st_ino));
        if (isNew) {
            const auto fd = container_root::tryOpenFound(target.get(), status);
            position->second = fd ? readLibrary(fd.get()) : std::nullopt;
        }
        return position->second ? &*position->second : nullptr;
    }

    /// The name by which programs request a file or link.
    static const std::string& keyOf(const Found& found) {
        const auto& soname = found.library->soname;
        const bool isDevelopmentLink =
            found.isLink && found.name->ends_with(".so") && soname.starts_with(*found.name);
        return soname.empty() || isDevelopmentLink ? *found.name : soname;
    }

    struct Key {
        std::string_view name;
        std::uint32_t flags;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const noexcept {
            return std::hash<std::string_view>{}(key.name) ^ key.flags;
        }
    };

    void appendRecords(const Place& place, const std::vector<Found>& all) {
        std::unordered_map<Key, std::string_view, KeyHash> best;
        best.reserve(all.size());
        for (const auto& found : all) {
            const Key key{keyOf(found), found.library->flags};
            const auto [position, isNew] = best.emplace(key, *found.name);
            if (isNew || position->second == key.name) {
                continue;
            }
            if (*found.name == key.name || compareLibraryNames(*found.name, position->second) > 0) {
                position->second = *found.name;
            }
        }
        result.records.reserve(result.records.size() + best.size());
        for (const auto& [key, name] : best) {
            result.records.push_back({std::string(key.name), cat(place.folder.path, '/', name), key.flags,
                                      place.hwcapsSubdirectory});
        }
    }

    int root;
    dev_t rootDevice = 0;
    StampClock clock;
    const EarlierScan& earlier;
    LibraryTable table;
    LibraryList notes;
    std::set<std::string> scanned;  ///< all names of the directories
    std::deque<Place> places;       ///< open and not yet scanned
    LibraryScan result;
    std::set<std::string> elsewhere;  ///< links that lead out of all directories
    std::map<std::pair<dev_t, ino_t>, std::optional<Library>> outside;
};

}  // namespace

LibraryScan scanLibraries(int root, const std::vector<LibraryDirectory>& directories,
                          const EarlierScan& earlier) {
    const container_root::ContainerView view;
    Scanner scanner(root, directories, earlier);
    for (const auto& directory : directories) {
        scanner.addWithHwcaps(directory);
    }
    return std::move(scanner).finish();
}

}  // namespace sarus::hooks
