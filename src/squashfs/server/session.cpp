#include "squashfs/server/session.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::squashfs {

namespace {

constexpr std::uint64_t rootNode = FUSE_ROOT_ID;
constexpr std::uint64_t firstNode = 2;
constexpr std::uint64_t forever = 0x7FFFFFFF;  // seconds
constexpr std::size_t requestSize = FUSE_MIN_READ_BUFFER;
constexpr std::uint32_t largestWrite = 4096;  // requests then fit into requestSize; nothing is ever written
constexpr std::uint32_t largestRead = 1U << 20U;
constexpr std::uint32_t largestListing = 1U << 17U;
constexpr int maxComplaints = 20;
constexpr std::size_t maxPositions = 64;
// A directory in which so many files were looked up is one whose files' attributes are wanted.
constexpr std::uint8_t lookUpsForAttributes = 8;
constexpr std::uint8_t listedMark = 0x80;      ///< beside the number of look-ups in a directory
constexpr std::uint32_t filesForPattern = 32;  ///< listed before it counts what is asked about them
constexpr std::uint32_t filesRemembered = 1024;
constexpr std::uint32_t listingsUntilDoubt = 32;

template <typename Value>
iovec pieceOf(const Value& value) {
    return {.iov_base = const_cast<Value*>(&value), .iov_len = sizeof value};  // read only
}

/// Sends what follows the header in `pieces`, whose first element it fills.
void send(int fd, std::uint64_t unique, int error, std::vector<iovec> pieces) {
    fuse_out_header header{.len = sizeof header, .error = error, .unique = unique};
    for (std::size_t i = 1; i < pieces.size(); ++i) {
        header.len += static_cast<std::uint32_t>(pieces[i].iov_len);
    }
    pieces.front() = pieceOf(header);
    // Fails if the request was interrupted, the node forgotten, or the mount is gone.
    [[maybe_unused]] const auto sent = ::writev(fd, pieces.data(), static_cast<int>(pieces.size()));
}

void add(std::vector<iovec>& list, std::span<const unsigned char> bytes) {
    list.push_back({.iov_base = const_cast<unsigned char*>(bytes.data()), .iov_len = bytes.size()});
}

std::uint32_t directoryType(mode_t format) {
    return static_cast<std::uint32_t>(format) >> 12U;
}

}  // namespace

template <typename Body>
Body Session::Request::as() const {
    Body value{};
    // Older kernels send less.
    std::memcpy(&value, body.data(), std::min(sizeof value, body.size()));
    return value;
}

std::string_view Session::Request::text() const {
    const auto* begin = reinterpret_cast<const char*>(body.data());
    return {begin, ::strnlen(begin, body.size())};
}

namespace {

template <typename Request>
void reply(const Request& request, int error) {
    send(request.fd, request.header.unique, -error, std::vector<iovec>(1));
}

template <typename Request, typename Value>
void replyWith(const Request& request, const Value& value) {
    send(request.fd, request.header.unique, 0, {{}, pieceOf(value)});
}

template <typename Request>
void replyBytes(const Request& request, std::span<const char> bytes) {
    send(request.fd, request.header.unique, 0,
         {{}, {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()}});
}

}  // namespace

Session::Session(Image& source, Chores& helpers, Settings theSettings)
    : image(source),
      chores(helpers),
      settings(std::move(theSettings)),
      files(source, helpers, settings.blocksAhead) {}

void Session::serve(int fd) {
    alignas(fuse_in_header) std::array<unsigned char, requestSize> buffer;  // NOLINT: read() fills it
    for (;;) {
        const auto count = ::read(fd, buffer.data(), buffer.size());
        if (count < 0) {
            if (errno == EINTR || errno == EAGAIN || errno == ENOENT) {
                continue;
            }
            return;  // ENODEV: unmounted
        }
        Request request{.fd = fd, .header = {}, .body = {}};
        if (static_cast<std::size_t>(count) < sizeof request.header) {
            return;
        }
        std::memcpy(&request.header, buffer.data(), sizeof request.header);
        request.body = std::span(buffer).subspan(sizeof request.header,
                                                 static_cast<std::size_t>(count) - sizeof request.header);
        try {
            answer(request);
        } catch (const std::bad_alloc&) {
            reply(request, ENOMEM);
        } catch (const std::exception& error) {
            complain(error.what());  // first: whoever waits for the answer may unmount, which ends the server
            reply(request, EIO);
        }
    }
}

void Session::complain(const char* problem) {
    const int number = complaints.fetch_add(1);
    if (number < maxComplaints) {
        printError(cat("sarus-squashfs: ", printable(problem),
                       number + 1 == maxComplaints ? " (further errors are not reported)" : ""));
    }
}

void Session::answer(const Request& request) {
    switch (request.header.opcode) {
        case FUSE_LOOKUP:
            return lookUp(request);
        case FUSE_READ:
            return read(request);
        case FUSE_GETATTR:
            return getAttributes(request);
        case FUSE_READDIRPLUS:
            return readDirectory(request, true);
        case FUSE_READDIR:
            return readDirectory(request, false);
        case FUSE_READLINK:
            return readLink(request);
        case FUSE_GETXATTR:
            return getXattr(request);
        case FUSE_LISTXATTR:
            return listXattrs(request);
        case FUSE_STATFS:
            return statFilesystem(request);
        case FUSE_INIT:
            return initialise(request);
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
            return;  // no answer
        case FUSE_OPEN:
            return open(request, skipsOpen, FOPEN_KEEP_CACHE);
        case FUSE_OPENDIR:
            return open(request, skipsOpendir, FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR);
        case FUSE_RELEASE:
        case FUSE_RELEASEDIR:
        case FUSE_DESTROY:
            return reply(request, 0);
        case FUSE_IOCTL:
            return reply(request, ENOTTY);
        case FUSE_SETATTR:
        case FUSE_SYMLINK:
        case FUSE_MKNOD:
        case FUSE_MKDIR:
        case FUSE_UNLINK:
        case FUSE_RMDIR:
        case FUSE_RENAME:
        case FUSE_RENAME2:
        case FUSE_LINK:
        case FUSE_WRITE:
        case FUSE_CREATE:
        case FUSE_SETXATTR:
        case FUSE_REMOVEXATTR:
        case FUSE_FALLOCATE:
        case FUSE_TMPFILE:
            return reply(request, EROFS);
        default:
            // The kernel asks no second time for what it can do without: FLUSH, ACCESS, INTERRUPT, FSYNC,
            // LSEEK, STATX and others.
            return reply(request, ENOSYS);
    }
}

void Session::initialise(const Request& request) {
    const auto in = request.as<fuse_init_in>();
    if (in.major != FUSE_KERNEL_VERSION || in.minor < 23) {
        complain("the kernel's FUSE protocol is too old");
        return reply(request, EPROTO);
    }
    skipsOpen = (in.flags & FUSE_NO_OPEN_SUPPORT) != 0;
    skipsOpendir = (in.flags & FUSE_NO_OPENDIR_SUPPORT) != 0;
    constexpr std::uint32_t wanted = FUSE_ASYNC_READ | FUSE_PARALLEL_DIROPS | FUSE_NO_OPEN_SUPPORT |
                                     FUSE_NO_OPENDIR_SUPPORT | FUSE_DO_READDIRPLUS | FUSE_CACHE_SYMLINKS |
                                     FUSE_MAX_PAGES;
    fuse_init_out out{};
    out.major = FUSE_KERNEL_VERSION;
    out.minor = std::min<std::uint32_t>(in.minor, FUSE_KERNEL_MINOR_VERSION);
    out.max_readahead = in.max_readahead;
    out.flags = in.flags & wanted;
    out.max_background = 64;
    out.congestion_threshold = 48;
    out.max_write = largestWrite;
    out.time_gran = 1;
    out.max_pages =
        static_cast<std::uint16_t>(largestRead / static_cast<std::uint32_t>(::sysconf(_SC_PAGESIZE)));
    replyWith(request, out);
    if (settings.onReady) {
        settings.onReady();
    }
}

std::uint64_t Session::referenceOf(std::uint64_t node) const {
    return node == rootNode ? image.superblock().root_inode_ref : node - firstNode;
}

std::uint64_t Session::nodeOf(std::uint64_t reference) const {
    return reference == image.superblock().root_inode_ref ? rootNode : reference + firstNode;
}

/// `blocks` as in the kernel, which counts extended attributes of everything.
fuse_attr Session::attributes(const Inode& inode) {
    const auto blocksOf = [](std::uint64_t bytes) {
        constexpr std::uint64_t sector = 512;
        return (bytes + sector - 1) / sector;
    };
    fuse_attr attr{};
    attr.ino = inode.number;
    attr.size = inode.size;
    attr.blocks = blocksOf(image.xattrSize(inode)) +
                  (S_ISREG(inode.mode) ? blocksOf(inode.size - std::min(inode.sparseBytes, inode.size)) : 0);
    attr.atime = attr.mtime = attr.ctime = inode.mtime;
    attr.mode = inode.mode;
    attr.nlink = inode.links;
    attr.uid = settings.uid.value_or(inode.uid);
    attr.gid = settings.gid.value_or(inode.gid);
    attr.rdev = inode.device;
    attr.blksize = image.superblock().block_size;
    return attr;
}

fuse_entry_out Session::entry(std::uint64_t reference, const Inode& inode) {
    fuse_entry_out out{};
    out.nodeid = nodeOf(reference);
    out.entry_valid = out.attr_valid = forever;
    out.attr = attributes(inode);
    return out;
}

std::atomic<std::uint8_t>& Session::lookUpsIn(std::uint64_t node) {
    return lookUps.at((node * 0x9E3779B97F4A7C15U >> 32U) % lookUps.size());
}

/// "ls -l" and "du" ask for the attributes of all files that they have listed, "find" for none. Now and then
/// a listing without attributes shows whether this is still so.
bool Session::listersAskForAttributes() {
    const std::uint32_t listed = filesListed;
    return listed >= filesForPattern && lookUpsAfterListing >= listed / 2 &&
           ++listingsWithAttributes % listingsUntilDoubt != 0;
}

void Session::countListing(std::uint64_t node, std::uint32_t count) {
    lookUpsIn(node) |= listedMark;
    if ((filesListed += count) > filesRemembered) {
        filesListed = filesListed / 2;
        lookUpsAfterListing = lookUpsAfterListing / 2;
    }
}

void Session::lookUp(const Request& request) {
    const auto found =
        findInDirectory(image, image.inode(referenceOf(request.header.nodeid)), request.text());
    if (!found) {
        fuse_entry_out absent{};
        absent.entry_valid = forever;  // without a node: the kernel remembers that there is none
        return replyWith(request, absent);
    }
    const auto inode = image.inode(found->reference);
    if (!S_ISDIR(inode.mode)) {
        auto& count = lookUpsIn(request.header.nodeid);
        const std::uint8_t before = count;
        if ((before & listedMark) != 0) {
            ++lookUpsAfterListing;
        }
        if ((before & ~listedMark) < lookUpsForAttributes) {
            ++count;
        }
    }
    replyWith(request, entry(found->reference, inode));
}

void Session::getAttributes(const Request& request) {
    fuse_attr_out out{};
    out.attr_valid = forever;
    out.attr = attributes(image.inode(referenceOf(request.header.nodeid)));
    replyWith(request, out);
}

void Session::readLink(const Request& request) {
    replyBytes(request, image.symlinkTarget(image.inode(referenceOf(request.header.nodeid))));
}

void Session::read(const Request& request) {
    const auto in = request.as<fuse_read_in>();
    const auto node = request.header.nodeid;
    auto result = files.read(referenceOf(node), in.offset, std::min(in.size, largestRead));
    std::vector<iovec> pieces(1);
    std::uint64_t end = in.offset;
    for (const auto& piece : result.pieces) {
        add(pieces, piece.bytes);
        end += piece.bytes.size();
    }
    send(request.fd, request.header.unique, 0, std::move(pieces));
    // The answer comes first: the kernel holds the locks of its pages until then.
    if (!result.after.empty()) {
        push(request.fd, node, end, std::move(result.after));
    }
    if (!result.before.empty()) {
        const auto start = in.offset - result.before.front().bytes.size();
        push(request.fd, node, start, std::move(result.before));
    }
}

/// Stores what was decompressed anyway in the kernel's page cache. Another thread does: the kernel may wait
/// for pages that are being read.
void Session::push(int fd, std::uint64_t node, std::uint64_t offset, std::vector<Piece> pieces) {
    if (offset % static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) != 0) {
        return;  // a direct read; the kernel could use no part of a page
    }
    chores.add([fd, node, offset, pieces = std::move(pieces)] {
        fuse_notify_store_out out{.nodeid = node, .offset = offset, .size = 0, .padding = 0};
        std::vector<iovec> list(2);
        for (const auto& piece : pieces) {
            add(list, piece.bytes);
            out.size += static_cast<std::uint32_t>(piece.bytes.size());
        }
        list[1] = pieceOf(out);
        send(fd, 0, FUSE_NOTIFY_STORE, std::move(list));
    });
}

DirectoryCursor Session::takePosition(std::uint64_t node, std::uint64_t offset, const Inode& directory) {
    {
        const std::lock_guard lock(positionsMutex);
        const auto found = std::find_if(positions.begin(), positions.end(), [&](const auto& one) {
            return one.node == node && one.offset == offset;
        });
        if (found != positions.end()) {
            auto cursor = std::move(*found->cursor);
            positions.erase(found);
            return cursor;
        }
    }
    DirectoryCursor cursor(image, directory);
    while (cursor.position() < offset && cursor.next()) {
    }
    return cursor;
}

void Session::keepPosition(std::uint64_t node, std::uint64_t offset, DirectoryCursor cursor) {
    const std::lock_guard lock(positionsMutex);
    positions.push_front({.node = node, .offset = offset, .cursor = std::move(cursor)});
    if (positions.size() > maxPositions) {
        positions.pop_back();
    }
}

/// Offsets: 1 behind ".", 2 behind "..", then 2 + the position in the listing.
void Session::readDirectory(const Request& request, bool plus) {
    const auto in = request.as<fuse_read_in>();
    const auto node = request.header.nodeid;
    const auto directory = image.inode(referenceOf(node));
    const std::size_t limit = std::min(in.size, largestListing);
    const bool withFiles =
        plus && ((lookUpsIn(node) & ~listedMark) >= lookUpsForAttributes || listersAskForAttributes());
    std::uint32_t listed = 0;
    std::string out;
    const auto append = [&](std::string_view name, std::uint32_t number, mode_t format, std::uint64_t offset,
                            std::uint64_t reference) {
        const auto head = (plus ? sizeof(fuse_entry_out) : 0) + offsetof(fuse_dirent, name);
        const auto size = FUSE_DIRENT_ALIGN(head + name.size());
        if (out.size() + size > limit) {
            return false;
        }
        if (plus) {
            // Without a node the kernel asks for the attributes when it needs them.
            fuse_entry_out attr{};
            if (reference != 0 && (S_ISDIR(format) || withFiles)) {
                attr = entry(reference - 1, image.inode(reference - 1));
            }
            out.append(reinterpret_cast<const char*>(&attr), sizeof attr);
        }
        const fuse_dirent one{.ino = number,
                              .off = offset,
                              .namelen = static_cast<std::uint32_t>(name.size()),
                              .type = directoryType(format)};
        out.append(reinterpret_cast<const char*>(&one), offsetof(fuse_dirent, name));
        out += name;
        out.resize(FUSE_DIRENT_ALIGN(out.size()));
        return true;
    };
    constexpr std::uint64_t dots = 2;
    bool fits = true;
    if (in.offset == 0) {
        fits = append(".", directory.number, S_IFDIR, 1, 0);
    }
    if (in.offset <= 1) {
        fits = fits && append("..", directory.parent, S_IFDIR, dots, 0);
    }
    auto cursor = takePosition(node, in.offset <= dots ? 0 : in.offset - dots, directory);
    while (fits) {
        auto before = cursor;
        const auto found = cursor.next();
        if (!found) {
            break;
        }
        fits = append(found->name, found->number, found->format, found->next + dots, found->reference + 1);
        listed += fits && !S_ISDIR(found->format) ? 1 : 0;
        if (!fits) {
            const auto position = before.position();
            keepPosition(node, position, std::move(before));
        }
    }
    if (!withFiles && listed > 0) {
        countListing(node, listed);
    }
    replyBytes(request, out);
}

void Session::getXattr(const Request& request) {
    if (!image.hasXattrs()) {
        return reply(request, ENOSYS);  // the kernel never asks again
    }
    const auto in = request.as<fuse_getxattr_in>();
    auto after = request;
    after.body = request.body.subspan(std::min(sizeof in, request.body.size()));
    const auto list = image.xattrs(image.inode(referenceOf(request.header.nodeid)), true);
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const auto& one) { return one.first == after.text(); });
    if (found == list.end()) {
        return reply(request, ENODATA);
    }
    if (in.size == 0) {
        return replyWith(request, fuse_getxattr_out{.size = static_cast<std::uint32_t>(found->second.size()),
                                                    .padding = 0});
    }
    if (in.size < found->second.size()) {
        return reply(request, ERANGE);
    }
    replyBytes(request, found->second);
}

void Session::listXattrs(const Request& request) {
    if (!image.hasXattrs()) {
        return reply(request, ENOSYS);
    }
    const auto in = request.as<fuse_getxattr_in>();
    std::string names;
    for (const auto& [name, value] : image.xattrs(image.inode(referenceOf(request.header.nodeid)), false)) {
        // Only root sees these, as everywhere.
        if (request.header.uid == 0 || !name.starts_with("trusted.")) {
            names += name;
            names += '\0';
        }
    }
    if (in.size == 0) {
        return replyWith(request,
                         fuse_getxattr_out{.size = static_cast<std::uint32_t>(names.size()), .padding = 0});
    }
    if (in.size < names.size()) {
        return reply(request, ERANGE);
    }
    replyBytes(request, names);
}

void Session::statFilesystem(const Request& request) {
    const auto& super = image.superblock();
    fuse_statfs_out out{};
    out.st.bsize = out.st.frsize = super.block_size;
    out.st.blocks = (super.bytes_used + super.block_size - 1) / super.block_size;
    out.st.files = super.inode_count;
    out.st.namelen = 255;
    replyWith(request, out);
}

void Session::open(const Request& request, bool kernelCanSkip, std::uint32_t flags) {
    if (kernelCanSkip) {
        return reply(request, ENOSYS);  // means success, now and in future
    }
    fuse_open_out out{};
    out.open_flags = flags;
    replyWith(request, out);
}

}  // namespace sarus::squashfs
