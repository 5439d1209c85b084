#include "image/image_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::image {

bool isImageFile(std::string_view argument) {
    const bool isPath = argument.starts_with('/') || argument.starts_with("./") || argument.starts_with("../");
    return isPath && argument.find_first_not_of('/') != std::string_view::npos;
}

UniqueFd openImageFile(const std::string& path) {
    constexpr std::string_view squashfsMagic = "hsqs";  // at the start of the superblock, version 4
    auto file = openFile(path, O_RDONLY | O_NONBLOCK);  // a FIFO must not block
    struct stat status {};
    checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", printable(path)));
    std::array<char, squashfsMagic.size()> start{};
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat("Cannot run ", printable(path), ": it is not a regular file"),
                    "An image that begins with '/' or './' is the path of a squashfs file");
    }
    const auto count = checkErrno(::pread(file.get(), start.data(), start.size(), 0), cat("Failed to read ", printable(path)));
    if (std::string_view(start.data(), static_cast<std::size_t>(count)) != squashfsMagic) {
        throw Error(cat("Cannot run ", printable(path), ": it is not a squashfs file"),
                    "An archive of an image can be stored with 'sarus load' and run then");
    }
    return file;
}

}  // namespace sarus::image
