#include "squashfs/server/file_reader.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "base/error.hpp"

namespace sarus::squashfs {

namespace {

constexpr std::size_t maxLayouts = 256;
constexpr std::uint64_t maxMarks = 512;
constexpr std::uint64_t minStride = 64;
constexpr std::uint32_t fragmentsAhead = 3;
constexpr std::uint32_t sizeMask = (1U << 24U) - 1;

}  // namespace

FileReader::FileReader(Image& source, Chores& helpers, std::uint32_t blocksAhead)
    : image(source),
      chores(helpers),
      ahead(blocksAhead),
      blockSize(source.superblock().block_size),
      zeros(blockSize) {}

std::shared_ptr<FileReader::Layout> FileReader::layoutOf(std::uint64_t reference) {
    {
        const std::lock_guard lock(mutex);
        const auto found = layouts.find(reference);
        if (found != layouts.end()) {
            order.splice(order.begin(), order, found->second.second);
            return found->second.first;
        }
    }
    auto layout = std::make_shared<Layout>();
    layout->inode = image.inode(reference);
    const auto& inode = layout->inode;
    if (!S_ISREG(inode.mode)) {
        throwDamaged("an inode is no file");
    }
    layout->blocks = inode.size / blockSize;
    if (inode.fragment == Inode::none && inode.size % blockSize != 0) {
        ++layout->blocks;
    }
    layout->stride = std::max(minStride, layout->blocks / maxMarks + 1);
    layout->marks.push_back({.sizes = inode.rest, .data = inode.dataStart});
    const std::lock_guard lock(mutex);
    if (layouts.contains(reference)) {
        return layouts[reference].first;
    }
    order.push_front(reference);
    layouts.emplace(reference, std::pair(layout, order.begin()));
    if (layouts.size() > maxLayouts) {
        layouts.erase(order.back());
        order.pop_back();
    }
    return layout;
}

std::vector<FileReader::Place> FileReader::places(Layout& layout, std::uint64_t first, std::uint64_t count) {
    std::vector<Place> found;
    const auto end = std::min(layout.blocks, first + count);
    if (first >= end) {
        return found;
    }
    const std::lock_guard lock(layout.mutex);
    const auto mark = std::min<std::uint64_t>(first / layout.stride, layout.marks.size() - 1);
    MetadataCursor cursor(image, layout.marks[mark].sizes);
    auto data = layout.marks[mark].data;
    for (auto i = mark * layout.stride; i < end; ++i) {
        if (i == layout.marks.size() * layout.stride) {
            layout.marks.push_back({.sizes = cursor.place(), .data = data});
        }
        const auto sizeField = cursor.number<std::uint32_t>();
        if (i >= first) {
            found.push_back({.position = data, .sizeField = sizeField});
        }
        data += sizeField & sizeMask;
    }
    return found;
}

void FileReader::loadAhead(const Place& place) {
    if (place.sizeField == 0 || image.hasDataBlock(place.position, place.sizeField)) {
        return;
    }
    chores.add([this, place] {
        try {
            image.dataBlock(place.position, place.sizeField);
        } catch (const std::exception&) {
            // Whoever asks for the block gets the error.
        }
    });
}

Piece FileReader::fragmentOf(const Inode& inode, std::uint64_t size) {
    const auto fragment = image.fragment(inode.fragment);
    const bool isNew = !image.hasDataBlock(fragment.position, fragment.sizeField);
    if (isNew && ahead > 0) {
        image.willNeed(fragment.position, fragmentsAhead * blockSize);
        for (std::uint32_t i = 1;
             i <= fragmentsAhead && inode.fragment + i < image.superblock().fragment_entry_count; ++i) {
            const auto next = image.fragment(inode.fragment + i);
            loadAhead({.position = next.position, .sizeField = next.sizeField});
        }
    }
    auto block = image.dataBlock(fragment.position, fragment.sizeField);
    if (inode.offset > block->size || block->size - inode.offset < size) {
        throwDamaged("a file's end is outside of its fragment");
    }
    const auto bytes = block->content().subspan(inode.offset, size);
    return {.owner = std::move(block), .bytes = bytes};
}

Piece FileReader::blockOf(const Place& place, std::uint64_t size) {
    if (place.sizeField == 0) {
        return {.owner = nullptr, .bytes = std::span(zeros).first(size)};
    }
    auto block = image.dataBlock(place.position, place.sizeField);
    if (block->size != size) {
        throwDamaged("a block has a wrong size");
    }
    const auto bytes = block->content();
    return {.owner = std::move(block), .bytes = bytes};
}

FileReader::Result FileReader::read(std::uint64_t reference, std::uint64_t offset, std::size_t size) {
    Result result;
    const auto layout = layoutOf(reference);
    const auto& inode = layout->inode;
    if (offset >= inode.size || size == 0) {
        return result;
    }
    const auto end = offset + std::min<std::uint64_t>(size, inode.size - offset);
    const auto first = offset / blockSize;
    const auto last = (end - 1) / blockSize;
    bool sequential = false;
    {
        const std::lock_guard lock(layout->mutex);
        sequential = layout->lastEnd == offset;
        layout->lastEnd = end;
    }
    const auto wanted = last - first + 1;
    const auto found = places(*layout, first, wanted + (sequential ? ahead : 0));
    if (found.size() > 1) {
        image.willNeed(found.front().position,
                       found.back().position + (found.back().sizeField & sizeMask) - found.front().position);
    }
    for (std::size_t i = 1; i < found.size(); ++i) {
        loadAhead(found[i]);
    }
    for (auto i = first; i <= last; ++i) {
        const auto start = i * blockSize;
        const auto length = std::min(blockSize, inode.size - start);
        const auto whole = i - first < found.size() && i < layout->blocks ? blockOf(found[i - first], length)
                                                                          : fragmentOf(inode, length);
        const auto from = std::max(offset, start) - start;
        const auto to = std::min(end - start, length);
        const auto part = [&](std::uint64_t begin, std::uint64_t stop) {
            return Piece{.owner = whole.owner, .bytes = whole.bytes.subspan(begin, stop - begin)};
        };
        if (from > 0) {
            result.before.push_back(part(0, from));
        }
        result.pieces.push_back(part(from, to));
        if (to < length) {
            result.after.push_back(part(to, length));
        }
    }
    return result;
}

}  // namespace sarus::squashfs
