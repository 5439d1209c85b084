#include "image/build/write/file_cutter.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

bool isZero(std::span<const unsigned char> data) {
    return data[0] == 0 && std::memcmp(data.data(), data.data() + 1, data.size() - 1) == 0;
}

}  // namespace

FileCutter::FileCutter(const SquashfsOptions& squashfsOptions, const ContentKeys::Secret& secret,
                       HandOn handOnBlock)
    : options(squashfsOptions), handOn(std::move(handOnBlock)), fragments(squashfsOptions, secret) {}

void FileCutter::begin(Inode& inode) {
    const bool hasTail = inode.size % options.blockSize != 0;
    const std::uint64_t count = inode.size / options.blockSize + (!options.fragments && hasTail ? 1 : 0);
    if (count > std::numeric_limits<std::uint32_t>::max() / sizeof(std::uint32_t)) {
        throw Error(cat("A file of ", formatSize(inode.size), " is too large for a squashfs with blocks of ",
                        formatSize(options.blockSize)));
    }
    inode.content = std::make_unique<FileContent>();
    inode.content->blocks.resize(count);  // zero means a block of zeros
    file = inode.content.get();
    remaining = inode.size;
    blockNumber = 0;
    hasBlocks = false;
    blockBytes = 0;
}

void FileCutter::append(std::span<const unsigned char> data, const ChunkPtr& chunk) {
    while (!data.empty()) {
        if (blockBytes == 0) {
            beginBlock();
            if (data.size() >= blockBytes && (isTail || (chunk && chunk->contains(data)))) {
                const auto content = data.first(blockBytes);
                data = data.subspan(blockBytes);
                endBlock(content, chunk);
                continue;
            }
            if (!buffer) {
                buffer = std::make_shared<Chunk>(options.blockSize);
            }
        }
        const auto count = std::min(data.size(), blockBytes - filled);
        std::memcpy(buffer->data() + filled, data.data(), count);
        data = data.subspan(count);
        filled += count;
        if (filled == blockBytes) {
            buffer->setSize(filled);
            endBlock(buffer->bytes(), nullptr);
        }
    }
}

void FileCutter::beginBlock() {
    if (remaining == 0) {
        throw Error("A file's content is longer than its size");
    }
    blockBytes = static_cast<std::size_t>(std::min<std::uint64_t>(remaining, options.blockSize));
    remaining -= blockBytes;
    filled = 0;
    isTail = options.fragments && blockBytes < options.blockSize;
}

/// `content` lies in `chunk`, or otherwise in `buffer`. The end of a file is copied.
void FileCutter::endBlock(std::span<const unsigned char> content, const ChunkPtr& chunk) {
    blockBytes = 0;
    if (isTail) {
        const auto place = fragments.add(content);
        file->fragment = place.fragment;
        file->fragmentOffset = place.offset;
        return;
    }
    const auto number = blockNumber++;
    if (options.sparse && isZero(content)) {
        file->holes += content.size();
        return;
    }
    if (held) {
        handOn(*std::exchange(held, std::nullopt));
    }
    held.emplace();
    held->bytes = content;
    held->file = file;
    held->number = number;
    held->isFirst = !std::exchange(hasBlocks, true);
    if (!chunk) {
        held->chunk = std::move(buffer);
        held->keeps = options.blockSize;
        return;
    }
    held->chunk = chunk;
    if (chunk != counted) {
        held->keeps = chunk->capacity();
        counted = chunk;
    }
}

void FileCutter::end() {
    if (remaining != 0 || blockBytes != 0) {
        throw Error("A file's content is shorter than its size");
    }
    if (held) {
        held->isLast = true;
        handOn(*std::exchange(held, std::nullopt));
    }
    if (auto full = fragments.takeFull()) {
        handOn(std::move(*full));
    }
}

void FileCutter::finish() {
    if (auto rest = fragments.takeRest()) {
        handOn(std::move(*rest));
    }
}

}  // namespace sarus::image::build
