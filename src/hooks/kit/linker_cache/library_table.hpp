#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sarus::hooks {

/// The data of an ELF library that matter for the linker cache.
struct Library {
    std::string soname;       ///< empty if it has none
    std::uint32_t flags = 0;  ///< see ldCacheFlags()
    bool operator==(const Library&) const = default;
};

/// Identifies an unchanged file: an inode that was neither changed nor replaced has the same values.
struct FileState {
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::uint64_t modified = 0;  ///< nanoseconds since 1970, modulo 2^64
    std::uint64_t changed = 0;   ///< likewise
    bool isOnDevice = false;  ///< whether it lies on the device of its directory: otherwise it may be mounted
    bool operator==(const FileState&) const = default;
};

FileState fileStateOf(const struct stat& status, dev_t deviceOfDirectory) noexcept;

/// Results for the files of library directories, so that unchanged ones need not be read again: the list
/// stored in our caches. It comes with the image and may be forged: that affects only this container's cache.
class LibraryTable {
public:
    struct Entry {
        FileState state;
        std::optional<Library> library;  ///< empty: the file is not a library for the cache
    };
    /// Results for one directory.
    class Directory {
    public:
        /// The result for a file; null if there is none or the file has changed. Valid as long as the table.
        const Entry* find(const std::string& name, const FileState& state) const;
        bool knows(const std::string& name) const { return entries.contains(name); }

    private:
        friend class LibraryTable;
        std::unordered_map<std::string, Entry> entries;
    };

    /// A directory in serialised form.
    struct Section {
        bool isSelfContained = false;  ///< no link in it leads to another scanned directory
        std::string_view bytes;        ///< the records of its files
    };

    /// Divides a list, which must outlive the table. Ignores anything invalid and everything after a damaged
    /// place.
    static LibraryTable parse(std::string_view text);

    /// Reads the records of the directory scanned under this path; empty if it was not scanned.
    Directory directory(const std::string& path) const;
    /// Null if the directory was not scanned.
    const Section* section(const std::string& path) const;

private:
    std::map<std::string, Section> sections;
};

/// Writes the list for LibraryTable::parse: a directory, then its files.
class LibraryList {
public:
    LibraryList();
    void beginDirectory(std::string_view path, bool isSelfContained = false);
    /// `library` may be null: then the file is not a library.
    void add(std::string_view name, const FileState& state, const Library* library);
    /// Adds the files of a directory of another list.
    void addSection(std::string_view bytes);
    /// The list; empty if it is larger than maxLibraryList or contains an overlong name.
    std::string finish() &&;

private:
    std::string text;
    bool isGood = true;
};

inline constexpr std::size_t maxLibraryList = 4U << 20U;

}  // namespace sarus::hooks
