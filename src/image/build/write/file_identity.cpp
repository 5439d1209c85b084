#include "image/build/write/file_identity.hpp"

#include "base/fsverity.hpp"
#include "squashfs/identity.hpp"

namespace sarus::image::build {

namespace {

std::string digest(squashfs::File& file, WrittenDigest& written) {
    return written.finish(file.size(), [&](auto offset, auto buffer) { file.read(offset, buffer); });
}

}  // namespace

void writeIdentity(squashfs::File& file, std::uint64_t offset, const std::string& digits) {
    constexpr int hexadecimal = 16;
    std::string bytes(squashfs::identityMark);
    for (std::size_t i = 0; i < digits.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, hexadecimal));
    }
    file.check(file.get()->write_at(file.get(), offset, bytes.data(), bytes.size()), "Failed to write");
}

std::string computeIdentity(squashfs::File& file, std::uint64_t offset, WrittenDigest& written) {
    writeIdentity(file, offset, std::string(2 * squashfs::identitySize, '0'));
    return digest(file, written).substr(fsverity::digestPrefix.size(), 2 * squashfs::identitySize);
}

std::string identifyFile(squashfs::File& file, std::uint64_t offset, WrittenDigest& written) {
    writeIdentity(file, offset, computeIdentity(file, offset, written));
    return digest(file, written);
}

}  // namespace sarus::image::build
