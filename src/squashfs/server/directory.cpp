#include "squashfs/server/directory.hpp"

#include <sys/stat.h>

#include <array>

namespace sarus::squashfs {

namespace {

constexpr std::uint64_t sizeOfDots = 3;  // the size of a directory counts "." and ".." as three bytes
constexpr std::uint32_t largestRun = 256;
constexpr std::size_t largestName = 255;

std::string readName(MetadataCursor& cursor, std::uint32_t size) {
    if (size > largestName) {
        throwDamaged("a name is too long");
    }
    std::string name(size, '\0');
    cursor.read(name.data(), name.size());
    return name;
}

}  // namespace

DirectoryCursor::DirectoryCursor(Image& source, const Inode& directory)
    : cursor(source, {.block = directory.dataStart, .offset = directory.offset}),
      image(&source),
      size(directory.size > sizeOfDots ? directory.size - sizeOfDots : 0) {
    if (!S_ISDIR(directory.mode)) {
        throwDamaged("an inode is no directory");
    }
}

void DirectoryCursor::jump(std::uint64_t position, MetadataPlace place) {
    cursor = MetadataCursor(*image, place);
    done = position;
    left = 0;
}

std::optional<DirectoryEntry> DirectoryCursor::next() {
    if (done >= size) {
        return std::nullopt;
    }
    if (left == 0) {
        left = cursor.number<std::uint32_t>() + 1;
        if (left == 0 || left > largestRun) {
            throwDamaged("a directory's header has an impossible count");
        }
        block = cursor.number<std::uint32_t>();
        firstNumber = cursor.number<std::uint32_t>();
        done += 12;
    }
    DirectoryEntry entry;
    entry.reference = block << 16U | cursor.number<std::uint16_t>();
    entry.number = firstNumber + static_cast<std::uint32_t>(cursor.number<std::int16_t>());
    entry.format = formatOf(cursor.number<std::uint16_t>());
    entry.name = readName(cursor, cursor.number<std::uint16_t>() + 1U);
    done += 8 + entry.name.size();
    --left;
    if (entry.name == "." || entry.name == ".." || entry.name.find('/') != std::string::npos ||
        entry.name.find('\0') != std::string::npos) {
        throwDamaged("a directory contains a forbidden name");
    }
    if (done > size) {
        throwDamaged("a directory is cut off");
    }
    entry.next = done;
    return entry;
}

std::optional<DirectoryEntry> findInDirectory(Image& image, const Inode& directory, std::string_view name) {
    DirectoryCursor cursor(image, directory);
    MetadataCursor index(image, directory.rest);
    for (std::uint32_t i = 0; i < directory.indexes; ++i) {
        const std::uint64_t position = index.number<std::uint32_t>();
        const auto block = image.superblock().directory_table_start + index.number<std::uint32_t>();
        const auto first = readName(index, index.number<std::uint32_t>() + 1U);
        if (first > name) {
            break;
        }
        cursor.jump(position,
                    {.block = block,
                     .offset = static_cast<std::uint32_t>((directory.offset + position) % metadataSize)});
    }
    while (auto entry = cursor.next()) {
        const int order = entry->name.compare(name);
        if (order >= 0) {
            return order == 0 ? std::move(entry) : std::nullopt;
        }
    }
    return std::nullopt;
}

}  // namespace sarus::squashfs
