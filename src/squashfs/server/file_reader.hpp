#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "squashfs/server/chores.hpp"
#include "squashfs/server/image.hpp"

namespace sarus::squashfs {

/// A part of a file's content.
struct Piece {
    SharedBlock owner;  ///< null: zeros that the image does not store
    std::span<const unsigned char> bytes;
};

/// Contents of files. Thread-safe.
class FileReader {
public:
    /// `blocksAhead`: how many blocks to decompress before they are asked for.
    FileReader(Image& source, Chores& chores, std::uint32_t blocksAhead);

    struct Result {
        std::vector<Piece> pieces;  ///< together what was asked for, or less at the end of the file
        /// What the blocks hold in front of the pieces and behind them.
        std::vector<Piece> before;
        std::vector<Piece> after;
    };
    /// `reference`: of the file's inode. Throws Error.
    Result read(std::uint64_t reference, std::uint64_t offset, std::size_t size);

private:
    /// Where a file's blocks are. Large files remember few of them; the others are counted from there.
    struct Layout {
        struct Mark {
            MetadataPlace sizes;
            std::uint64_t data = 0;
        };
        Inode inode;
        std::uint64_t blocks = 0;  ///< without the fragment
        std::uint64_t stride = 0;  ///< blocks between two marks
        std::mutex mutex;
        std::vector<Mark> marks;
        std::uint64_t lastEnd = 0;  ///< of the last read
    };
    struct Place {
        std::uint64_t position = 0;
        std::uint32_t sizeField = 0;  ///< 0: zeros
    };

    std::shared_ptr<Layout> layoutOf(std::uint64_t reference);
    /// Of the blocks from `first` on, at most `count`.
    std::vector<Place> places(Layout& layout, std::uint64_t first, std::uint64_t count);
    void loadAhead(const Place& place);
    Piece fragmentOf(const Inode& inode, std::uint64_t size);
    Piece blockOf(const Place& place, std::uint64_t size);

    Image& image;
    Chores& chores;
    std::uint32_t ahead;
    std::uint64_t blockSize;
    std::vector<unsigned char> zeros;
    std::mutex mutex;
    std::list<std::uint64_t> order;  ///< most recently used first
    std::unordered_map<std::uint64_t, std::pair<std::shared_ptr<Layout>, std::list<std::uint64_t>::iterator>>
        layouts;
};

}  // namespace sarus::squashfs
