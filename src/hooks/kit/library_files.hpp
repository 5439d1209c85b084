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

#include "hooks/kit/cache_stamp.hpp"
#include "hooks/kit/library_table.hpp"

namespace sarus::hooks {

/// A regular file or a symbolic link with the name of a library.
struct LibraryFile {
    std::string name;
    bool isLink = false;
    std::string target{};              ///< of a link; empty if it cannot be read
    std::optional<Library> library{};  ///< of a file; empty if it is no library for the cache
    std::optional<FileState> state{};  ///< of a file that can be known again by it
};

/// A directory of such files.
struct LibraryFolder {
    std::string path;                                ///< absolute, as seen inside
    int fd;                                          ///< not owned
    const LibraryTable::Directory* known = nullptr;  ///< what was learnt earlier; null: nothing counts
    dev_t device = 0;
    std::deque<LibraryFile> files{};  ///< which stay where they are when more are added
};

/// Lists directories, and reads the links and files in them, except for files which are as they were when something was learnt
/// from them. Where that pays, a few threads share the work. Nothing is followed, nothing blocks, and what cannot be read is no
/// library.
class LibraryReader {
public:
    /// The clock is kept, not copied.
    explicit LibraryReader(const StampClock& startOfWork) : clock(startOfWork) {}
    ~LibraryReader() { complete(); }
    LibraryReader(const LibraryReader&) = delete;
    LibraryReader& operator=(const LibraryReader&) = delete;

    /// Fills the folder with what has the name of a library (`lib*.so*`, `ld-*.so*`), but for directories and devices. It must
    /// stay where it is, and its files must be left alone, until all is finished.
    void add(LibraryFolder& folder);
    /// Returns when everything has been read, and the threads have ended.
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
    std::size_t mostThreads = 0;

    std::mutex mutex;  ///< of what follows
    std::condition_variable changed;
    std::deque<Portion> portions;
    bool isComplete = false;

    std::vector<std::jthread> threads;
};

/// Whether a file of this name is looked at: `lib*.so*` and `ld-*.so*`, but not what package managers write while they work.
bool isLibraryName(std::string_view name);

/// What a symbolic link of the directory says; empty if it cannot be read.
std::string readLink(int directory, const std::string& name);

/// Reads a library for the cache; empty if it is none: no ELF file, damaged, for an unknown machine, or with an impossible
/// SONAME.
std::optional<Library> readLibrary(int fd);

}  // namespace sarus::hooks
