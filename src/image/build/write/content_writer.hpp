#pragma once

#include <sqfs/frag_table.h>

#include <span>

#include "image/build/bytes/chunk.hpp"
#include "image/build/hash/hash_pool.hpp"
#include "image/build/tree/image_tree.hpp"
#include "image/build/write/block_layout.hpp"
#include "image/build/write/compressor_pool.hpp"
#include "image/build/write/content_key.hpp"
#include "image/build/write/file_cutter.hpp"
#include "image/build/write/squashfs_options.hpp"
#include "squashfs/reader/file.hpp"

namespace sarus::image::build {

/// Writes the contents of files into a squashfs: cut into blocks, compressed on several threads, equal ones
/// stored once. The output depends only on the files and their order.
class ContentWriter {
public:
    /// Writes from the end of `output` on; the other arguments are those of the squashfs. The references must
    /// stay valid.
    ContentWriter(squashfs::File& output, HashPool& hashPool, sqfs_frag_table_t& fragmentTable,
                  const SquashfsOptions& options, unsigned int workers)
        : secret(ContentKeys::newSecret()),
          layout(output, hashPool.written(), fragmentTable, options.duplicates, secret),
          pool(output, layout, hashPool, options, secret, workers),
          cutter(options, secret, [this](Block block) { pool.add(std::move(block)); }) {}

    /// As in FileCutter. `inode.content` is complete after finish; until then the inode must stay valid.
    void begin(Inode& inode) { cutter.begin(inode); }
    void append(std::span<const unsigned char> data, const ChunkPtr& chunk) { cutter.append(data, chunk); }
    void end() { cutter.end(); }

    /// Waits until everything is in the file, and truncates the file after it. This or any other function
    /// rethrows errors of other threads.
    void finish() {
        cutter.finish();
        pool.finish();
        layout.finish();
    }

private:
    ContentKeys::Secret secret;
    BlockLayout layout;
    CompressorPool pool;  // its threads end before what they use
    FileCutter cutter;
};

}  // namespace sarus::image::build
