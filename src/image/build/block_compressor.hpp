#pragma once

#include <sqfs/compressor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "image/build/squashfs_handles.hpp"
#include "image/build/squashfs_options.hpp"

struct ZSTD_CCtx_s;

namespace sarus::image::build {

/// Compresses the contents of files; one per thread.
class BlockCompressor {
public:
    explicit BlockCompressor(const SquashfsOptions& options);

    /// Returns the number of bytes in `out`, 0 if they would not be fewer than those of `in` or than there is room, or an error
    /// code of libsquashfs, which is negative. Equal blocks give equal bytes.
    std::int32_t compress(std::span<const unsigned char> in, std::span<unsigned char> out) noexcept;

private:
    struct Free {
        void operator()(ZSTD_CCtx_s* freed) const noexcept;
    };
    SquashfsPtr<sqfs_compressor_t> compressor;
    std::unique_ptr<ZSTD_CCtx_s, Free> zstd;  ///< instead of it, where the tables are our own
};

}  // namespace sarus::image::build
