#pragma once

#include <sqfs/frag_table.h>
#include <sqfs/inode.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "image/build/block_compressor.hpp"
#include "image/build/chunk.hpp"
#include "image/build/content_key.hpp"
#include "image/build/hash_jobs.hpp"
#include "image/build/image_tree.hpp"
#include "image/build/squashfs_file.hpp"
#include "image/build/squashfs_options.hpp"

namespace sarus::image::build {

struct FreeSquashfsInode {
    void operator()(sqfs_inode_generic_t* inode) const noexcept { std::free(inode); }
};
using OwnInode = std::unique_ptr<sqfs_inode_generic_t, FreeSquashfsInode>;

/// A zeroed inode in libsquashfs's form, with `payload` bytes behind it.
OwnInode newInode(std::size_t payload);

/// Writes the contents of files into a squashfs: cuts them into blocks, packs the ends of files together, compresses on several
/// threads, and stores equal contents once. What is written depends on the files and their order alone: it is laid out in the
/// order in which the caller fills blocks, whichever thread compresses them.
class ContentWriter final : public HashJobs {
public:
    /// Writes from the end of `output` on; the other arguments are those of the squashfs. All are the caller's and must stay.
    ContentWriter(SquashfsFile& output, sqfs_frag_table_t& fragmentTable, const SquashfsOptions& squashfsOptions,
                  unsigned int workers);
    ContentWriter(const ContentWriter&) = delete;
    ContentWriter& operator=(const ContentWriter&) = delete;
    ~ContentWriter() override;

    /// The content of one regular file of `inode.size` bytes: begin, append until all bytes are there, end. `inode.data` is set
    /// when finish has returned. `chunk` may be null; where the data lie in it, whole blocks are not copied.
    void begin(Inode& inode);
    void append(std::span<const unsigned char> data, const ChunkPtr& chunk);
    void end();

    /// Waits until everything is in the file, and cuts the file behind it. Nobody may have a job at that time. Errors of other
    /// threads are thrown here, or by any other function.
    void finish();

    std::unique_ptr<HashJob> takeJob() override;
    void endJob(std::unique_ptr<HashJob> job) override;

    /// Ends all threads, without finishing. Nothing but the destructor may be called afterwards.
    void stop() noexcept;

private:
    using Buffer = std::unique_ptr<unsigned char[]>;

    struct File {
        Inode* inode = nullptr;
        OwnInode data;
        std::uint64_t holes = 0;  ///< bytes in blocks of zeros
        std::uint32_t fragment = 0xFFFFFFFFU;
        std::uint32_t fragmentOffset = 0xFFFFFFFFU;
        // The rest belongs to the thread that writes.
        bool located = false;
        std::uint64_t start = 0;
        ContentKey key{};
    };

    /// A piece of content on its way: filled by the caller, compressed by any thread, written in order.
    struct Block {
        std::span<const unsigned char> content;  ///< in one of the following
        Buffer raw;
        ChunkPtr chunk;
        std::size_t keeps = 0;  ///< bytes that must stay until it is written, unless an earlier block has counted them
        File* file = nullptr;   ///< null for a block of fragments
        std::size_t number = 0;
        std::unique_ptr<File> ended;  ///< the file, if this is its last block
        Buffer packed;
        std::uint32_t packedSize = 0;  ///< with the squashfs's mark for blocks that are written as they are
        ContentKey key{};
        bool done = false;

        std::span<const unsigned char> toWrite() const noexcept;
    };

    /// Blocks that are written together.
    struct Batch : HashJob {
        std::vector<std::unique_ptr<Block>> blocks;
        std::size_t bytes = 0;  ///< as they are written
    };

    struct Place {
        std::uint32_t fragment = 0;
        std::uint32_t offset = 0;
    };

    void beginBlock();
    void endBlock(std::span<const unsigned char> content, const ChunkPtr& chunk);
    void addTail(std::span<const unsigned char> content);
    std::unique_ptr<Block> blockOfTails();
    void submit(std::unique_ptr<Block> block);
    void complete(File& file);
    Buffer takeBuffer();
    void recycle(Buffer& used);

    void work();
    void compress(Block& block, BlockCompressor& compressor, ContentKeys& keys);
    void writeReady(std::unique_lock<std::mutex>& lock);
    std::unique_ptr<Batch> takeReady();
    void write(Batch& batch);
    void release(const Batch& batch);
    void place(Block& block, std::vector<struct iovec>& pieces, std::uint64_t& begin);
    void endFile(File& file, std::vector<struct iovec>& pieces, std::uint64_t& begin);
    void fail(std::exception_ptr problem) noexcept;

    SquashfsFile& out;
    sqfs_frag_table_t& fragments;
    const SquashfsOptions& options;
    std::size_t blockSize;
    std::size_t bufferSize;
    std::size_t limit;  ///< bytes that blocks on their way may keep
    ContentKeys::Secret secret;
    std::vector<BlockCompressor> compressors;

    // The caller's side.
    ContentKeys tailKeys;
    std::unique_ptr<File> current;
    std::uint64_t remaining = 0;  ///< bytes of the current file that are not in a block yet
    std::size_t blockNumber = 0;
    ChunkPtr counted;            ///< the last chunk that a block keeps
    std::size_t blockBytes = 0;  ///< that the block which is being filled will have
    std::size_t filled = 0;      ///< of these
    bool isTail = false;         ///< it will be a fragment
    Buffer buffer;               ///< where it is filled, unless its bytes come all at once
    Buffer tails;
    std::size_t tailBytes = 0;
    std::uint32_t fragmentCount = 0;  ///< blocks of fragments that were submitted; the number of `tails`
    std::unique_ptr<Block> held;      ///< the last block of the file so far
    std::unique_ptr<Block> fullTails;
    std::unordered_map<ContentKey, Place, ContentKeyHash> knownTails;

    // Shared, under the mutex.
    std::mutex mutex;
    std::condition_variable workToDo;
    std::condition_variable roomAgain;
    std::deque<std::unique_ptr<Block>> ordered;
    std::deque<Block*> toCompress;
    std::deque<std::unique_ptr<Batch>> toHash;  ///< written
    std::size_t toHashBytes = 0;
    std::vector<Buffer> spare;
    std::size_t underWay = 0;   ///< blocks
    std::size_t keptBytes = 0;  ///< by these
    bool writing = false;       ///< a thread writes, and owns what follows
    bool stopping = false;
    std::exception_ptr failure;

    std::uint64_t position;
    ContentKeys chainKeys;
    std::unordered_map<ContentKey, std::uint64_t, ContentKeyHash> knownFiles;

    std::vector<std::thread> threads;
};

}  // namespace sarus::image::build
