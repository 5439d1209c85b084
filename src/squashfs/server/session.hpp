#pragma once

#include <linux/fuse.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "squashfs/server/chores.hpp"
#include "squashfs/server/directory.hpp"
#include "squashfs/server/file_reader.hpp"
#include "squashfs/server/image.hpp"

namespace sarus::squashfs {

/// Answers the kernel's requests for one mounted image, in the FUSE protocol. A node's number is 1 for the
/// root directory, otherwise the inode's reference + 2: the server remembers no nodes.
class Session {
public:
    struct Settings {
        std::optional<std::uint32_t> uid;  ///< shown as the owner of all files, if set
        std::optional<std::uint32_t> gid;
        std::uint32_t blocksAhead = 8;
        std::function<void()> onReady;  ///< called once, when the mount can be used
    };
    Session(Image& source, Chores& helpers, Settings theSettings);

    /// Serves requests from `fd` until the mount is gone. A thread's function; any number of threads.
    void serve(int fd);

private:
    struct Request {
        int fd = -1;
        fuse_in_header header{};
        std::span<const unsigned char> body;

        template <typename Body>
        Body as() const;
        std::string_view text() const;
    };
    struct Position {
        std::uint64_t node = 0;
        std::uint64_t offset = 0;
        std::optional<DirectoryCursor> cursor;
    };

    void answer(const Request& request);
    void initialise(const Request& request);
    void lookUp(const Request& request);
    void getAttributes(const Request& request);
    void readLink(const Request& request);
    void read(const Request& request);
    void readDirectory(const Request& request, bool plus);
    void getXattr(const Request& request);
    void listXattrs(const Request& request);
    void statFilesystem(const Request& request);
    void open(const Request& request, bool kernelCanSkip, std::uint32_t flags);

    std::uint64_t referenceOf(std::uint64_t node) const;
    std::uint64_t nodeOf(std::uint64_t reference) const;
    fuse_attr attributes(const Inode& inode);
    fuse_entry_out entry(std::uint64_t reference, const Inode& inode);
    void push(int fd, std::uint64_t node, std::uint64_t offset, std::vector<Piece> pieces);
    DirectoryCursor takePosition(std::uint64_t node, std::uint64_t offset, const Inode& directory);
    void keepPosition(std::uint64_t node, std::uint64_t offset, DirectoryCursor cursor);
    std::atomic<std::uint8_t>& lookUpsIn(std::uint64_t node);
    bool listersAskForAttributes();
    void countListing(std::uint64_t node, std::uint32_t count);
    void complain(const char* problem);

    Image& image;
    Chores& chores;
    Settings settings;
    FileReader files;
    bool skipsOpen = false;
    bool skipsOpendir = false;
    std::atomic<int> complaints{0};
    std::array<std::atomic<std::uint8_t>, 4096> lookUps{};
    std::atomic<std::uint32_t> filesListed{0};  ///< without attributes
    std::atomic<std::uint32_t> lookUpsAfterListing{0};
    std::atomic<std::uint32_t> listingsWithAttributes{0};
    std::mutex positionsMutex;
    std::list<Position> positions;  ///< where readers of directories are, most recent first
};

}  // namespace sarus::squashfs
