#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "hooks/kit/linker_cache/cache_stamp.hpp"
#include "hooks/kit/linker_cache/library_table.hpp"

namespace sarus::hooks {

/// A regular file or symbolic link with a library name.
struct LibraryFile {
    std::string name;
    bool isLink = false;
    std::string target{};              ///< of a link; empty if it cannot be read
    std::optional<Library> library{};  ///< of a file; empty if it is not a library for the cache
    std::optional<FileState> state{};  ///< of a file that can be recognised by it
};

/// A directory of such files.
struct LibraryFolder {
    std::string path;                                ///< absolute, as seen inside
    int fd;                                          ///< not owned
    const LibraryTable::Directory* known = nullptr;  ///< results of an earlier run; null: none usable
    dev_t device = 0;
    std::deque<LibraryFile> files{};  ///< a deque, so that they stay in place when more are added
};

/// Lists directories and reads their links and files, except files that have not changed since an earlier
/// run. Uses a few threads if that pays. Follows nothing, never blocks, and treats unreadable files as other
/// than libraries.
class LibraryReader {
public:
    /// Refers to the clock; does not copy it.
    explicit LibraryReader(const StampClock& startOfWork) : clock(startOfWork) {}
    ~LibraryReader() { complete(); }
    LibraryReader(const LibraryReader&) = delete;
    LibraryReader& operator=(const LibraryReader&) = delete;

    /// Fills the folder with all entries that have a library name (`lib*.so*`, `ld-*.so*`), except
    /// directories and devices. The folder must stay in place, and its files must be left alone, until
    /// finish() returns.
    void add(LibraryFolder& folder);
    /// Returns when everything has been read and the threads have ended.
    void finish();

private:
    using Item = std::pair<const LibraryFolder*, LibraryFile*>;
    using Portion = std::vector<Item>;

    void addEntry(LibraryFolder& folder, const char* name, unsigned char type);
    void addFile(const LibraryFolder& folder, LibraryFile& file);
    void handOver();
    void complete();
    void work();
    std::optional<Portion> take();

    const StampClock& clock;
    Portion next;
    std::size_t costOfNext = 0;
    std::size_t handedOver = 0;
    std::size_t maxThreads = 0;

    std::mutex mutex;  ///< protects the members below
    std::condition_variable changed;
    std::deque<Portion> portions;
    bool isComplete = false;

    std::vector<std::jthread> threads;
};

/// Whether to examine a file of this name: `lib*.so*` and `ld-*.so*`, but not the temporary files of package
/// managers.
bool isLibraryName(std::string_view name);

/// The target of a symbolic link in the directory; empty if it cannot be read.
std::string readLink(int directory, const std::string& name);

/// Reads a library for the cache; empty if it is not one: no ELF file, damaged, for an unknown machine, or
/// with an impossible SONAME.
std::optional<Library> readLibrary(int fd);

}  // namespace sarus::hooks
