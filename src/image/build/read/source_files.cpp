#include "image/build/read/source_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

class Directory final : public SourceFiles {
public:
    explicit Directory(UniqueFd directory) : root(std::move(directory)) {}

    StoredFile open(const std::string& name) const override {
        // Without O_NONBLOCK, opening a FIFO would wait for a writer.
        auto file = openFileAt(root.get(), name, O_RDONLY | O_NONBLOCK);
        struct stat status {};
        checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", printable(name)));
        if (!S_ISREG(status.st_mode)) {
            throw Error(cat('"', printable(name), "\" is not a regular file"));
        }
        return {std::make_shared<const UniqueFd>(std::move(file)), 0,
                static_cast<std::uint64_t>(status.st_size)};
    }

    bool contains(const std::string& name) const override {
        return ::faccessat(root.get(), name.c_str(), F_OK, AT_EACCESS) == 0;
    }

private:
    UniqueFd root;
};

}  // namespace

std::shared_ptr<const SourceFiles> openSourceDirectory(UniqueFd directory) {
    return std::make_shared<Directory>(std::move(directory));
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
