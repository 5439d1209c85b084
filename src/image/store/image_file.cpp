#include "image/store/image_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>

#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::image {

bool isImageFile(std::string_view argument) {
    const bool isPath =
        argument.starts_with('/') || argument.starts_with("./") || argument.starts_with("../");
    return isPath && argument.find_first_not_of('/') != std::string_view::npos;
}

// At the end of the file: the metadata, their length in 16 hexadecimal digits, and this text.
constexpr std::string_view metadataMark = "SARUSMETADATA-1\n";
constexpr std::size_t lengthDigits = 16;

std::optional<std::string> embeddedMetadata(int file) {
    struct stat status {};
    checkErrno(::fstat(file, &status), "Failed to examine the image file");
    constexpr auto tailSize = static_cast<off_t>(lengthDigits + metadataMark.size());
    std::string tail(static_cast<std::size_t>(tailSize), '\0');
    if (status.st_size < tailSize ||
        checkErrno(::pread(file, tail.data(), tail.size(), status.st_size - tailSize),
                   "Failed to read the image file") != tailSize ||
        !tail.ends_with(metadataMark)) {
        return std::nullopt;
    }
    std::size_t length = 0;
    const auto end = std::from_chars(tail.data(), tail.data() + lengthDigits, length, 16).ptr;
    if (end != tail.data() + lengthDigits || length > largestMetadata ||
        static_cast<off_t>(length) > status.st_size - tailSize) {
        throw Error("The metadata at the end of the image file are damaged");
    }
    std::string text(length, '\0');
    const auto count =
        ::pread(file, text.data(), length, status.st_size - tailSize - static_cast<off_t>(length));
    if (count != static_cast<ssize_t>(length)) {
        throw Error("Failed to read the metadata at the end of the image file");
    }
    return text;
}

oci::ImageMetadata metadataOfImageFile(const std::string& path, int file) {
    constexpr std::string_view ending = ".squashfs";
    const auto beside =
        cat(path.substr(0, path.size() - (path.ends_with(ending) ? ending.size() : 0)), ".meta");
    try {
        const auto text =
            pathExists(beside) ? std::optional(readFile(beside, largestMetadata)) : embeddedMetadata(file);
        return text ? oci::parseImageMetadata(*text) : oci::ImageMetadata();
    } catch (Error& error) {
        throw error.addContext(cat("Failed to read the metadata of ", printable(path)));
    }
}

namespace {

const std::string& checkFree(const std::string& path, Existing existing, const Error& otherwise) {
    if (existing == Existing::keep && pathExists(path)) {
        throw Error(otherwise);
    }
    return path;
}

}  // namespace

ImageFileDraft::ImageFileDraft(const std::string& path, Existing existing)
    : name(path), mode(existing), draft(checkFree(path, existing, existsAlready()), 0666) {}

Error ImageFileDraft::existsAlready() const {
    return Error(cat("Failed to create ", printable(name), ": File exists"));
}

void ImageFileDraft::publish(std::string_view metadata) {
    if (metadata.size() > largestMetadata) {
        throw Error(cat("The metadata of the image are larger than ", formatSize(largestMetadata)));
    }
    std::array<char, lengthDigits + 1> length{};
    std::snprintf(length.data(), length.size(), "%016zx", metadata.size());
    checkErrno(::lseek(draft.fd(), 0, SEEK_END) < 0 ? -1 : 0, cat("Failed to write ", printable(name)));
    writeAll(draft.fd(), cat(metadata, length.data(), metadataMark), printable(name));
    if (mode == Existing::replace) {
        draft.replace();
    } else if (!draft.create()) {
        throw existsAlready();
    }
}

void writeImageFile(int squashfs, std::string_view metadata, const std::string& path, Existing existing) {
    ImageFileDraft file(path, existing);
    copyContent(squashfs, file.fd(), printable(path));
    file.publish(metadata);
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
    const auto count = checkErrno(::pread(file.get(), start.data(), start.size(), 0),
                                  cat("Failed to read ", printable(path)));
    if (std::string_view(start.data(), static_cast<std::size_t>(count)) != squashfsMagic) {
        throw Error(cat("Cannot run ", printable(path), ": it is not a squashfs file"),
                    "An archive of an image can be stored with 'sarus load' and run then");
    }
    return file;
}

}  // namespace sarus::image
