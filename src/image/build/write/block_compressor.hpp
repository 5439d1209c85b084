#pragma once

#include <sqfs/compressor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "image/build/write/squashfs_options.hpp"
#include "squashfs/reader/handles.hpp"

struct ZSTD_CCtx_s;

namespace sarus::image::build {

/// The compressor selected by the options. Throws Error if libsquashfs lacks it.
squashfs::Handle<sqfs_compressor_t> makeCompressor(const SquashfsOptions& options);

/// The content of a block.
enum class BlockContent { file, fragments };

/// Compresses contents of files; one per thread.
class BlockCompressor {
public:
    explicit BlockCompressor(const SquashfsOptions& options);

    /// Returns the number of bytes in `out`; 0 if they would not be fewer than those of `in` or do not fit;
    /// or a negative error code of libsquashfs. Equal blocks of the same kind give equal bytes.
    std::int32_t compress(BlockContent content, std::span<const unsigned char> in,
                          std::span<unsigned char> out) noexcept;

private:
    bool choose(BlockContent content) noexcept;

    struct Free {
        void operator()(ZSTD_CCtx_s* freed) const noexcept;
    };
    squashfs::Handle<sqfs_compressor_t> compressor;
    std::unique_ptr<ZSTD_CCtx_s, Free> zstd;   ///< used instead if the parameters are our own choice
    BlockContent chosen = BlockContent::file;  ///< the kind whose parameters `zstd` has
};

}  // namespace sarus::image::build
