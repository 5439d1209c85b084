#include "image/build/write/block_layout.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace sarus::image::build {

BlockLayout::BlockLayout(squashfs::File& output, WrittenDigest& outputDigest,
                         sqfs_frag_table_t& fragmentTable, bool duplicates, const ContentKeys::Secret& secret)
    : file(output),
      digest(outputDigest),
      fragments(fragmentTable),
      findsEqual(duplicates),
      keys(secret),
      position(output.size()) {}

HashJob BlockLayout::write(std::vector<Block> blocks) {
    Pieces pieces{position};
    HashJob job;
    for (auto& block : blocks) {
        place(block, pieces);
        if (job.keeps.empty() || job.keeps.back() != block.chunk) {
            job.bytes += block.chunk->capacity();
            job.keeps.push_back(std::move(block.chunk));
        }
    }
    digest.noteWrite(pieces.begin, position, false);
    file.write(pieces.begin, pieces.list);
    job.toHash = BlocksToHash(pieces.begin, pieces.list);
    return job;
}

void BlockLayout::place(const Block& block, Pieces& pieces) {
    if (block.file == nullptr) {
        sqfs_u32 number = 0;
        file.check(sqfs_frag_table_append(&fragments, position, block.sizeWord, &number), "Failed to write");
    } else {
        if (block.isFirst) {
            fileStart = position;
            fileKey = {};
        }
        block.file->blocks[block.number] = block.sizeWord;
        if (findsEqual) {
            std::array<unsigned char, 2 * sizeof(ContentKey) + sizeof block.sizeWord> link;
            std::copy(fileKey.begin(), fileKey.end(), link.begin());
            std::copy(block.key.begin(), block.key.end(), link.begin() + sizeof(ContentKey));
            std::memcpy(link.data() + 2 * sizeof(ContentKey), &block.sizeWord, sizeof block.sizeWord);
            fileKey = keys.of(link);
        }
    }
    // iovec lacks const; it is for writing.
    pieces.list.push_back({const_cast<unsigned char*>(block.bytes.data()), block.bytes.size()});
    position += block.bytes.size();
    if (block.isLast) {
        endFile(*block.file, pieces);
    }
}

/// If an earlier file has the same blocks, uses those and discards the ones written last.
void BlockLayout::endFile(FileContent& content, Pieces& pieces) {
    content.start = fileStart;
    if (!findsEqual) {
        return;
    }
    const auto [known, isNew] = knownFiles.try_emplace(fileKey, fileStart);
    if (isNew) {
        return;
    }
    while (!pieces.list.empty() && position > fileStart) {
        position -= pieces.list.back().iov_len;
        pieces.list.pop_back();
    }
    position = fileStart;
    pieces.begin = std::min(pieces.begin, position);
    content.start = known->second;
}

}  // namespace sarus::image::build
