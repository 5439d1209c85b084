#pragma once

#include <sqfs/compressor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "image/build/squashfs_handles.hpp"
#include "image/build/squashfs_options.hpp"

struct ZSTD_CCtx_s;

namespace sarus::image::build {

/// The compressor that the options ask for. Throws Error if libsquashfs has none.
SquashfsPtr<sqfs_compressor_t> makeCompressor(const SquashfsOptions& options);

/// Of what a block consists.
enum class BlockContent { file, fragments, inodes, listings };

/// Compresses contents of files and blocks of tables; one per thread.
class BlockCompressor {
public:
    explicit BlockCompressor(const SquashfsOptions& options);

    /// Returns the number of bytes in `out`, 0 if they would not be fewer than those of `in` or than there is room, or an error
    /// code of libsquashfs, which is negative. Equal blocks of the same kind give equal bytes.
    std::int32_t compress(BlockContent content, std::span<const unsigned char> in, std::span<unsigned char> out) noexcept;

private:
    bool choose(BlockContent content) noexcept;

    struct Free {
        void operator()(ZSTD_CCtx_s* freed) const noexcept;
    };
    SquashfsPtr<sqfs_compressor_t> compressor;
    std::unique_ptr<ZSTD_CCtx_s, Free> zstd;   ///< instead of it, where the parameters are our own choice
    BlockContent chosen = BlockContent::file;  ///< whose parameters `zstd` has
};

}  // namespace sarus::image::build
