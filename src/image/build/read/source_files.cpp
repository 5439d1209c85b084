#include "image/build/read/source_files.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/types/growing_blob.hpp"

namespace sarus::image::build {

namespace {

class Directory final : public SourceFiles {
public:
    Directory(UniqueFd directory, std::shared_ptr<const Download> theDownload)
        : root(std::move(directory)), download(std::move(theDownload)) {}

    StoredFile open(const std::string& name) const override {
        // A complete blob gets its digest as its name in one step: if it has the first name no more, it has
        // the second one.
        auto growing = openGrowing(name);
        const bool mayGrow = static_cast<bool>(growing);
        // Without O_NONBLOCK, opening a FIFO would wait for a writer.
        auto file = mayGrow ? std::move(growing) : openFileAt(root.get(), name, O_RDONLY | O_NONBLOCK);
        struct stat status {};
        checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", printable(name)));
        if (!S_ISREG(status.st_mode)) {
            throw Error(cat('"', printable(name), "\" is not a regular file"));
        }
        return {std::make_shared<const UniqueFd>(std::move(file)), 0,
                static_cast<std::uint64_t>(status.st_size), mayGrow ? download : nullptr};
    }

    bool contains(const std::string& name) const override {
        return ::faccessat(root.get(), name.c_str(), F_OK, AT_EACCESS) == 0;
    }

private:
    UniqueFd openGrowing(const std::string& name) const {
        if (!download) {
            return {};
        }
        const auto growing = growingBlobName(fileNameOf(name));
        return UniqueFd(::openat(root.get(), growing.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    }

    UniqueFd root;
    std::shared_ptr<const Download> download;
};

}  // namespace

bool Download::hasEnded() const {
    return endsWithin(0);
}

void Download::wait() const {
    // Short beside the time in which what has come meanwhile is converted.
    constexpr int moment = 20;
    endsWithin(moment);
}

bool Download::endsWithin(int milliseconds) const {
    pollfd polled{.fd = end.get(), .events = POLLIN, .revents = 0};
    return ::poll(&polled, 1, milliseconds) > 0;
}

std::shared_ptr<const SourceFiles> openSourceDirectory(UniqueFd directory,
                                                       std::shared_ptr<const Download> download) {
    return std::make_shared<Directory>(std::move(directory), std::move(download));
}

std::string readSmallFile(const SourceFiles& files, const std::string& name, std::uint64_t limit) {
    const auto part = files.open(name);
    if (part.size > limit) {
        throw Error(
            cat('"', printable(name), "\" has ", formatSize(part.size), "; the limit is ", formatSize(limit)),
            "An image has no such file: it is damaged, or made to do harm");
    }
    std::string text(static_cast<std::size_t>(part.size), '\0');
    text.resize(readAt(part.file->get(), reinterpret_cast<unsigned char*>(text.data()), text.size(),
                       part.offset, name));
    return text;
}

std::size_t readAt(int file, unsigned char* data, std::size_t size, std::uint64_t offset,
                   const std::string& nameForMessages) {
    std::size_t have = 0;
    while (have < size) {
        const auto count = ::pread(file, data + have, size - have, static_cast<off_t>(offset + have));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        checkErrno(count, cat("Failed to read ", printable(nameForMessages)));
        if (count == 0) {
            break;
        }
        have += static_cast<std::size_t>(count);
    }
    return have;
}

}  // namespace sarus::image::build
