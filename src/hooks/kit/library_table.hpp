#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sarus::hooks {

/// What counts of an ELF library in the linker cache.
struct Library {
    std::string soname;       ///< empty if it has none
    std::uint32_t flags = 0;  ///< see ldCacheFlags()
    bool operator==(const Library&) const = default;
};

/// By what a file is known again: the same inode which neither changed nor was replaced has all of it in common.
struct FileState {
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::uint64_t modified = 0;  ///< nanoseconds since 1970, modulo 2^64
    std::uint64_t changed = 0;   ///< likewise
    bool isOnDevice = false;     ///< whether it lies on the device of its directory: otherwise it may be mounted
    bool operator==(const FileState&) const = default;
};

FileState fileStateOf(const struct stat& status, dev_t deviceOfDirectory) noexcept;

/// What was once learnt from the files of library directories, so that those which are as they were need not be read again:
/// the list that a cache of ours carries. It comes with the image, and may be false in every respect: then the cache that is
/// made with it is false, too, for this container alone.
class LibraryTable {
public:
    struct Entry {
        FileState state;
        std::optional<Library> library;  ///< empty: the file is no library for the cache
    };
    /// What is known of one directory.
    class Directory {
    public:
        /// What is known of the file; null if nothing, or if the file is not as it was. Valid as long as the table.
        const Entry* find(const std::string& name, const FileState& state) const;
        bool knows(const std::string& name) const { return entries.contains(name); }

    private:
        friend class LibraryTable;
        std::unordered_map<std::string, Entry> entries;
    };

    /// A directory as it was written.
    struct Section {
        bool isSelfContained = false;  ///< no link in it leads to another directory that is scanned
        std::string_view bytes;        ///< the records of its files
    };

    /// Divides a list, which must stay; what is no list, or the rest behind a damaged place, counts for nothing.
    static LibraryTable parse(std::string_view text);

    /// Reads the records of the directory that was scanned under this path; there are none if it was not.
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
    /// `library` may be null: then the file is none.
    void add(std::string_view name, const FileState& state, const Library* library);
    /// The files of a directory of another list.
    void addSection(std::string_view bytes);
    /// The list; empty if it is larger than kMaxLibraryList, or has a name which is too long to be one.
    std::string finish() &&;

private:
    std::string text;
    bool isGood = true;
};

inline constexpr std::size_t kMaxLibraryList = 4U << 20U;

}  // namespace sarus::hooks
