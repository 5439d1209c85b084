#include "squashfs/sif.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/read_bytes.hpp"
#include "base/text.hpp"
#include "squashfs/little_endian.hpp"

// The format, version 1: a header of 128 bytes, a table of descriptors of 585 bytes, and what these describe.
// All numbers are little-endian and not aligned.

namespace sarus::squashfs {

namespace {

using namespace std::string_view_literals;

constexpr std::size_t magicOffset = 32;
constexpr auto magic = "SIF_MAGIC\0"sv;
constexpr std::size_t headerSize = 128;
constexpr std::size_t descriptorSize = 585;
constexpr std::uint64_t mostDescriptors = 1024;  // tools make 48
constexpr std::uint64_t largestOffset = std::uint64_t{1} << 62U;

constexpr std::uint32_t partitionType = 0x4004;
constexpr std::uint32_t squashfsType = 1;
constexpr std::uint32_t primarySystem = 2;

struct Partition {
    FilePart part;
    std::uint32_t filesystem = 0;
    std::uint32_t purpose = 0;
};

template <typename Number>
Number numberAt(std::string_view bytes, std::size_t offset) {
    return littleEndian<Number>(reinterpret_cast<const unsigned char*>(&bytes[offset]));
}

std::string_view nameOf(std::uint32_t filesystem) {
    constexpr std::array<std::string_view, 6> names{
        "an unknown file system", "squashfs", "ext3", "an archive", "raw data", "an encrypted file system"};
    return names.at(filesystem < names.size() ? filesystem : 0);
}

/// Throws Error.
std::vector<Partition> readPartitions(int fd, std::string_view header, std::string_view name) {
    const auto count = numberAt<std::uint64_t>(header, 88);
    const auto table = numberAt<std::uint64_t>(header, 96);
    if (count > mostDescriptors) {
        throw Error("the table of the SIF file is damaged or too large");
    }
    const auto bytes =
        table > largestOffset ? std::string() : readBytes(fd, table, count * descriptorSize, name);
    if (bytes.size() < count * descriptorSize) {
        throw Error("the table of the SIF file is incomplete");
    }
    std::vector<Partition> partitions;
    for (std::size_t at = 0; at < bytes.size(); at += descriptorSize) {
        const auto descriptor = std::string_view(bytes).substr(at, descriptorSize);
        const bool isUsed = descriptor[4] != 0;
        if (isUsed && numberAt<std::uint32_t>(descriptor, 0) == partitionType) {
            partitions.push_back({.part = {.offset = numberAt<std::uint64_t>(descriptor, 17),
                                           .size = numberAt<std::uint64_t>(descriptor, 25)},
                                  .filesystem = numberAt<std::uint32_t>(descriptor, 201),
                                  .purpose = numberAt<std::uint32_t>(descriptor, 205)});
        }
    }
    return partitions;
}

/// Throws Error.
const Partition& choose(std::vector<Partition>& partitions) {
    const auto keep = [&](auto&& wanted) {
        if (std::any_of(partitions.begin(), partitions.end(), wanted)) {
            std::erase_if(partitions, [&](const Partition& partition) { return !wanted(partition); });
        }
    };
    keep([](const Partition& partition) { return partition.purpose == primarySystem; });
    keep([](const Partition& partition) { return partition.filesystem == squashfsType; });
    if (partitions.empty()) {
        throw Error("the SIF file has no partition");
    }
    const auto& first = partitions.front();
    if (first.filesystem != squashfsType) {
        throw Error(cat("the SIF file has ", nameOf(first.filesystem), " in place of squashfs"));
    }
    if (partitions.size() > 1) {
        throw Error(cat("the SIF file has ", partitions.size(),
                        first.purpose == primarySystem ? " primary system partitions"
                                                       : " partitions with squashfs and no primary one"));
    }
    return first;
}

}  // namespace

bool isSif(std::string_view start) noexcept {
    return start.size() >= magicOffset + magic.size() && start.substr(magicOffset, magic.size()) == magic;
}

FilePart findSquashfs(int fd, std::uint64_t fileSize, std::string_view path) {
    const auto name = printable(path);
    const auto header = readBytes(fd, 0, headerSize, cat("image ", name));
    if (!isSif(header)) {
        return {.offset = 0, .size = fileSize};
    }
    try {
        if (header.size() < headerSize) {
            throw Error("the header of the SIF file is incomplete");
        }
        auto partitions = readPartitions(fd, header, name);
        const auto part = choose(partitions).part;
        if (part.offset > fileSize || part.size > fileSize - part.offset) {
            throw Error("the partition of the SIF file is incomplete");
        }
        return part;
    } catch (const Error& error) {
        throw Error(cat("Failed to use image ", name, ": ", error.what()),
                    "Only a SIF file with one complete squashfs partition can be mounted");
    }
}

}  // namespace sarus::squashfs
