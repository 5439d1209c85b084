#include "image/build/content_writer.hpp"

#include <sqfs/error.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

constexpr std::uint32_t storedAsIs = 1U << 24U;
constexpr std::size_t batchBlocks = 16;  // that are written together
constexpr std::size_t mostBatchBlocks = 64;
constexpr std::size_t mostToHash = 4U << 20U;  // bytes that wait for a thread which hashes something else
constexpr std::string_view doing = "Failed to write";

bool isZero(const unsigned char* data, std::size_t size) {
    return data[0] == 0 && std::memcmp(data, data + 1, size - 1) == 0;
}

}  // namespace

std::span<const unsigned char> ContentWriter::Block::toWrite() const noexcept {
    return (packedSize & storedAsIs) != 0 ? content : std::span<const unsigned char>(packed.get(), packedSize);
}

OwnInode newInode(std::size_t payload) {
    auto* inode = static_cast<sqfs_inode_generic_t*>(std::calloc(1, sizeof(sqfs_inode_generic_t) + payload));
    if (inode == nullptr) {
        throw Error("Failed to write the squashfs: out of memory");
    }
    return OwnInode(inode);
}

ContentWriter::ContentWriter(SquashfsFile& output, sqfs_frag_table_t& fragmentTable, const SquashfsOptions& squashfsOptions,
                             unsigned int workers)
    : out(output),
      fragments(fragmentTable),
      options(squashfsOptions),
      blockSize(options.blockSize),
      // Compressors are faster where the output cannot become too large.
      bufferSize(blockSize + blockSize / 64 + 1024),
      limit(std::max<std::size_t>(options.memory, (2U * workers + 2) * blockSize)),
      secret(ContentKeys::newSecret()),
      tailKeys(secret),
      position(output.size()),
      chainKeys(secret) {
    knownTails.reserve(1U << 17U);  // a table that grows reads all its keys again
    for (unsigned int i = 0; i < workers; ++i) {
        compressors.emplace_back(options);
    }
    try {
        for (unsigned int i = 0; i < workers; ++i) {
            threads.emplace_back([this] { work(); });
        }
    } catch (...) {
        stop();
        throw;
    }
}

ContentWriter::~ContentWriter() {
    stop();
}

void ContentWriter::stop() noexcept {
    {
        const std::lock_guard lock(mutex);
        stopping = true;
        workToDo.notify_all();
    }
    for (auto& thread : threads) {
        if (thread.joinable()) {
            thread.join();
        }
    }
}

void ContentWriter::begin(Inode& inode) {
    const std::uint64_t whole = inode.size / blockSize;
    const std::uint64_t count = whole + (!options.fragments && inode.size % blockSize != 0 ? 1 : 0);
    if (count > std::numeric_limits<sqfs_u32>::max() / sizeof(sqfs_u32)) {
        throw Error(
            cat("A file of ", formatSize(inode.size), " is too large for a squashfs with blocks of ", formatSize(blockSize)));
    }
    current = std::make_unique<File>();
    current->inode = &inode;
    current->data = newInode(count * sizeof(sqfs_u32));  // zero means a block of zeros
    current->data->base.type = SQFS_INODE_FILE;
    current->data->payload_bytes_available = static_cast<sqfs_u32>(count * sizeof(sqfs_u32));
    current->data->payload_bytes_used = current->data->payload_bytes_available;
    remaining = inode.size;
    blockNumber = 0;
    blockBytes = 0;
}

void ContentWriter::append(std::span<const unsigned char> data, const ChunkPtr& chunk) {
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
                buffer = takeBuffer();
            }
        }
        const auto count = std::min(data.size(), blockBytes - filled);
        std::memcpy(buffer.get() + filled, data.data(), count);
        data = data.subspan(count);
        filled += count;
        if (filled == blockBytes) {
            endBlock({buffer.get(), blockBytes}, nullptr);
        }
    }
}

void ContentWriter::beginBlock() {
    if (remaining == 0) {
        throw Error("A file's content is longer than its size");
    }
    blockBytes = static_cast<std::size_t>(std::min<std::uint64_t>(remaining, blockSize));
    remaining -= blockBytes;
    filled = 0;
    isTail = options.fragments && blockBytes < blockSize;
}

/// `content` lies in `chunk`, or else in `buffer`; unless it is the end of a file, which is copied.
void ContentWriter::endBlock(std::span<const unsigned char> content, const ChunkPtr& chunk) {
    blockBytes = 0;
    if (isTail) {
        addTail(content);
        return;
    }
    if (options.sparse && isZero(content.data(), content.size())) {
        current->holes += content.size();
        ++blockNumber;
        return;
    }
    if (held) {
        submit(std::move(held));
    }
    held = std::make_unique<Block>();
    held->content = content;
    held->chunk = chunk;
    if (!chunk) {
        held->raw = std::move(buffer);
        held->keeps = blockSize;
    } else if (chunk != counted) {
        held->keeps = chunk->capacity();
        counted = chunk;
    }
    held->file = current.get();
    held->number = blockNumber++;
}

void ContentWriter::addTail(std::span<const unsigned char> content) {
    Place* place = nullptr;
    if (options.duplicates) {
        const auto [known, isNew] = knownTails.try_emplace(tailKeys.of(content));
        if (!isNew) {
            current->fragment = known->second.fragment;
            current->fragmentOffset = known->second.offset;
            return;
        }
        place = &known->second;
    }
    if (tailBytes + content.size() > blockSize) {
        // The full ones go behind the file's own blocks, which must not be interrupted.
        fullTails = blockOfTails();
        ++fragmentCount;
    }
    if (!tails) {
        tails = takeBuffer();
    }
    std::memcpy(tails.get() + tailBytes, content.data(), content.size());
    current->fragment = fragmentCount;
    current->fragmentOffset = static_cast<std::uint32_t>(tailBytes);
    tailBytes += content.size();
    if (place != nullptr) {
        *place = {current->fragment, current->fragmentOffset};
    }
}

std::unique_ptr<ContentWriter::Block> ContentWriter::blockOfTails() {
    auto block = std::make_unique<Block>();
    block->content = {tails.get(), tailBytes};
    block->raw = std::move(tails);
    block->keeps = blockSize;
    tailBytes = 0;
    return block;
}

void ContentWriter::end() {
    if (remaining != 0 || blockBytes != 0) {
        throw Error("A file's content is shorter than its size");
    }
    if (held) {
        held->ended = std::move(current);
        submit(std::move(held));
    } else {
        complete(*current);
    }
    if (fullTails) {
        submit(std::move(fullTails));
    }
    current.reset();
}

/// Fills in what the squashfs has to know about a file, when all of it has its place.
void ContentWriter::complete(File& file) {
    auto* data = file.data.release();
    file.inode->data = data;
    out.check(sqfs_inode_set_file_size(data, file.inode->size), doing);
    out.check(sqfs_inode_set_file_block_start(data, file.start), doing);
    out.check(sqfs_inode_set_frag_location(data, file.fragment, file.fragmentOffset), doing);
    if (file.holes > 0) {
        out.check(sqfs_inode_make_extended(data), doing);
        data->data.file_ext.sparse = file.holes;
    }
}

ContentWriter::Buffer ContentWriter::takeBuffer() {
    {
        const std::lock_guard lock(mutex);
        if (!spare.empty()) {
            Buffer taken = std::move(spare.back());
            spare.pop_back();
            return taken;
        }
    }
    return Buffer(new unsigned char[bufferSize]);
}

/// Keeps a buffer, if it is one, for the next block. Under the mutex.
void ContentWriter::recycle(Buffer& used) {
    if (used) {
        spare.push_back(std::move(used));
    }
}

/// Waits while too much is under way. Once it had to wait it does so until there is room for a while, so that threads do not
/// take turns for each block.
void ContentWriter::submit(std::unique_ptr<Block> block) {
    std::unique_lock lock(mutex);
    if (keptBytes >= limit) {
        roomAgain.wait(lock, [this] { return keptBytes <= limit - limit / 4 || failure; });
    }
    if (failure) {
        std::rethrow_exception(failure);
    }
    ++underWay;
    keptBytes += block->keeps;
    toCompress.push_back(block.get());
    ordered.push_back(std::move(block));
    workToDo.notify_one();
}

void ContentWriter::finish() {
    if (tailBytes > 0) {
        submit(blockOfTails());
    }
    {
        std::unique_lock lock(mutex);
        roomAgain.wait(lock, [this] { return underWay == 0 || failure; });
    }
    stop();
    if (failure) {
        std::rethrow_exception(failure);
    }
    while (auto job = takeJob()) {
        job->toHash.hashRest();
        endJob(std::move(job));
    }
    spare.clear();  // what comes now needs memory, too
    out.check(out.get()->truncate(out.get(), position), doing);
}

void ContentWriter::work() {
    try {
        ContentKeys keys(secret);
        std::unique_lock lock(mutex);
        auto compressor = std::move(compressors.back());
        compressors.pop_back();
        while (true) {
            workToDo.wait(lock, [this] { return !toCompress.empty() || stopping; });
            if (stopping || failure) {
                return;
            }
            Block& block = *toCompress.front();
            toCompress.pop_front();
            lock.unlock();
            block.packed = takeBuffer();
            compress(block, compressor, keys);
            if ((block.packedSize & storedAsIs) == 0) {
                block.chunk.reset();
            }
            lock.lock();
            block.done = true;
            recycle((block.packedSize & storedAsIs) == 0 ? block.raw : block.packed);
            writeReady(lock);
        }
    } catch (...) {
        fail(std::current_exception());
    }
}

void ContentWriter::fail(std::exception_ptr problem) noexcept {
    const std::lock_guard lock(mutex);
    if (!failure) {
        failure = std::move(problem);
    }
    roomAgain.notify_all();
    workToDo.notify_all();
}

void ContentWriter::compress(Block& block, BlockCompressor& compressor, ContentKeys& keys) {
    sqfs_s32 size = 0;
    // As with mksquashfs, -noD is about blocks of files, not of fragments.
    if (options.compressData || block.file == nullptr) {
        size = compressor.compress(block.file != nullptr ? BlockContent::file : BlockContent::fragments, block.content,
                                   {block.packed.get(), bufferSize});
        out.check(size, "Failed to compress for");
    }
    if (size == 0) {
        block.packedSize = static_cast<std::uint32_t>(block.content.size()) | storedAsIs;
    } else {
        block.packedSize = static_cast<std::uint32_t>(size);
    }
    if (block.file != nullptr && options.duplicates) {
        block.key = keys.of(block.toWrite());
    }
}

/// Writes what is complete at the front of the order, unless another thread does. Small pieces wait for more, except where
/// nothing else is under way. What was written waits for a thread that can hash it beside other work; if there is enough of that
/// already, it is hashed here, while the next thread may write.
void ContentWriter::writeReady(std::unique_lock<std::mutex>& lock) {
    while (!writing) {
        auto batch = takeReady();
        if (!batch) {
            return;
        }
        writing = true;
        lock.unlock();
        write(*batch);
        lock.lock();
        writing = false;
        release(*batch);
        if (toHashBytes + batch->bytes <= mostToHash) {
            toHashBytes += batch->bytes;
            toHash.push_back(std::move(batch));
            continue;
        }
        lock.unlock();
        batch->toHash.hashRest();
        endJob(std::move(batch));
        lock.lock();
    }
}

/// Makes room for others. Under the mutex.
void ContentWriter::release(const Batch& batch) {
    const bool wasFull = keptBytes > limit - limit / 4;
    for (const auto& block : batch.blocks) {
        keptBytes -= block->keeps;
    }
    underWay -= batch.blocks.size();
    if (underWay == 0 || (wasFull && keptBytes <= limit - limit / 4)) {
        roomAgain.notify_all();
    }
}

std::unique_ptr<HashJob> ContentWriter::takeJob() {
    const std::lock_guard lock(mutex);
    if (toHash.empty()) {
        return nullptr;
    }
    auto job = std::move(toHash.front());
    toHash.pop_front();
    toHashBytes -= job->bytes;
    return job;
}

void ContentWriter::endJob(std::unique_ptr<HashJob> job) {
    out.takeHashes(job->toHash);
    const std::lock_guard lock(mutex);
    for (auto& block : static_cast<Batch&>(*job).blocks) {
        recycle(block->packed);
        recycle(block->raw);
    }
}

std::unique_ptr<ContentWriter::Batch> ContentWriter::takeReady() {
    const auto end = std::find_if(ordered.begin(), ordered.end(), [](const auto& block) { return !block->done; });
    const auto count = static_cast<std::size_t>(end - ordered.begin());
    if (count == 0 || (count < batchBlocks && end != ordered.end())) {
        return nullptr;
    }
    auto batch = std::make_unique<Batch>();
    for (std::size_t i = 0; i < std::min(count, mostBatchBlocks); ++i) {
        batch->blocks.push_back(std::move(ordered.front()));
        ordered.pop_front();
    }
    return batch;
}

void ContentWriter::write(Batch& batch) {
    auto begin = position;
    std::vector<struct iovec> pieces;
    for (const auto& block : batch.blocks) {
        place(*block, pieces, begin);
    }
    out.write(begin, pieces);
    batch.bytes = static_cast<std::size_t>(position - begin);
    batch.toHash = BlocksToHash(begin, pieces);
}

void ContentWriter::place(Block& block, std::vector<struct iovec>& pieces, std::uint64_t& begin) {
    const auto bytes = block.toWrite();
    if (block.file == nullptr) {
        sqfs_u32 number = 0;
        out.check(sqfs_frag_table_append(&fragments, position, block.packedSize, &number), doing);
    } else {
        File& file = *block.file;
        if (!file.located) {
            file.located = true;
            file.start = position;
        }
        file.data->extra[block.number] = block.packedSize;
        if (options.duplicates) {
            std::array<unsigned char, 2 * sizeof(ContentKey) + sizeof block.packedSize> link;
            std::copy(file.key.begin(), file.key.end(), link.begin());
            std::copy(block.key.begin(), block.key.end(), link.begin() + sizeof(ContentKey));
            std::memcpy(link.data() + 2 * sizeof(ContentKey), &block.packedSize, sizeof block.packedSize);
            file.key = chainKeys.of(link);
        }
    }
    pieces.push_back({const_cast<unsigned char*>(bytes.data()), bytes.size()});  // iovec lacks const; it is for writing
    position += bytes.size();
    if (block.ended) {
        endFile(*block.ended, pieces, begin);
    }
}

/// Where the blocks of an earlier file are the same, that file's are used, and what was written last is given up.
void ContentWriter::endFile(File& file, std::vector<struct iovec>& pieces, std::uint64_t& begin) {
    if (options.duplicates) {
        const auto [known, isNew] = knownFiles.try_emplace(file.key, file.start);
        if (!isNew) {
            while (!pieces.empty() && position > file.start) {
                position -= pieces.back().iov_len;
                pieces.pop_back();
            }
            position = file.start;
            begin = std::min(begin, position);
            file.start = known->second;
        }
    }
    complete(file);
}

}  // namespace sarus::image::build
