#include "image/build/read/decompressor.hpp"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/build/read/source_files.hpp"

#ifdef SARUS_HAVE_LIBISAL
#include <isa-l/igzip_lib.h>
#endif

namespace sarus::image::build {

namespace {

std::uint32_t clamp32(std::size_t size) {
    return static_cast<std::uint32_t>(std::min<std::size_t>(size, std::numeric_limits<std::int32_t>::max()));
}

[[noreturn]] void damagedGzip(std::string_view why) {
    throw Error(cat("the gzip data are damaged (", why, ")"));
}

class ZlibDecompressor final : public Decompressor {
public:
    ZlibDecompressor() {
        if (inflateInit2(&stream, 15 + 16) != Z_OK) {
            throw Error("Failed to initialise zlib");
        }
    }
    ZlibDecompressor(const ZlibDecompressor&) = delete;
    ZlibDecompressor& operator=(const ZlibDecompressor&) = delete;
    ~ZlibDecompressor() override { inflateEnd(&stream); }

    Step step(std::span<const unsigned char> in, std::span<unsigned char> out) override {
        if (in.empty()) {
            return drain(out);
        }
        if (memberEnded) {
            inflateReset(&stream);
            memberEnded = false;
        }
        stream.next_in =
            const_cast<unsigned char*>(in.data());  // zlib's interface lacks const; it does not write here
        stream.avail_in = clamp32(in.size());
        const auto givenIn = stream.avail_in;
        const std::size_t produced = run(out);
        return {givenIn - stream.avail_in, produced};
    }

    bool complete() const noexcept override { return memberEnded; }

private:
    Step drain(std::span<unsigned char> out) {
        stream.avail_in = 0;
        return {0, memberEnded ? 0 : run(out)};
    }

    std::size_t run(std::span<unsigned char> out) {
        stream.next_out = out.data();
        stream.avail_out = clamp32(out.size());
        const auto givenOut = stream.avail_out;
        const int result = inflate(&stream, Z_NO_FLUSH);
        if (result == Z_STREAM_END) {
            memberEnded = true;
        } else if (result != Z_OK && result != Z_BUF_ERROR) {
            damagedGzip(stream.msg != nullptr ? stream.msg : "inflate failed");
        }
        return givenOut - stream.avail_out;
    }

    z_stream stream{};
    bool memberEnded = false;
};

#ifdef SARUS_HAVE_LIBISAL

const char* isalProblem(int result) {
    switch (result) {
        case ISAL_INVALID_WRAPPER:
            return "invalid header, or foreign data after the end";
        case ISAL_UNSUPPORTED_METHOD:
            return "unsupported method";
        case ISAL_INCORRECT_CHECKSUM:
            return "wrong checksum";
        default:
            return "invalid block";
    }
}

class IsalDecompressor final : public Decompressor {
public:
    IsalDecompressor() { restart(); }

    Step step(std::span<const unsigned char> in, std::span<unsigned char> out) override {
        if (memberEnded) {
            if (in.empty()) {
                return {0, 0};
            }
            restart();
        }
        state.next_in =
            const_cast<unsigned char*>(in.data());  // the interface lacks const; it does not write here
        state.avail_in = clamp32(in.size());
        state.next_out = out.data();
        state.avail_out = clamp32(out.size());
        const auto givenIn = state.avail_in;
        const auto givenOut = state.avail_out;
        const int result = isal_inflate(&state);
        if (result < 0 || result == ISAL_NEED_DICT) {
            damagedGzip(isalProblem(result));
        }
        memberEnded = state.block_state == ISAL_BLOCK_FINISH;
        return {givenIn - state.avail_in, givenOut - state.avail_out};
    }

    bool complete() const noexcept override { return memberEnded; }

private:
    void restart() {
        isal_inflate_init(&state);
        state.crc_flag = ISAL_GZIP;
        memberEnded = false;
    }

    inflate_state state{};
    bool memberEnded = false;
};

#endif

class ZstdDecompressor final : public Decompressor {
public:
    ZstdDecompressor() : stream(ZSTD_createDStream()) {
        if (!stream) {
            throw Error("Failed to initialise zstd");
        }
    }

    Step step(std::span<const unsigned char> in, std::span<unsigned char> out) override {
        ZSTD_inBuffer input{in.data(), in.size(), 0};
        ZSTD_outBuffer output{out.data(), out.size(), 0};
        if (in.empty() && frameEnded) {
            return {0, 0};
        }
        const std::size_t result = ZSTD_decompressStream(stream.get(), &output, &input);
        if (ZSTD_isError(result) != 0U) {
            throw Error(cat("the zstd data are damaged (", ZSTD_getErrorName(result), ")"));
        }
        frameEnded = result == 0;
        return {input.pos, output.pos};
    }

    bool complete() const noexcept override { return frameEnded; }

private:
    struct Free {
        void operator()(ZSTD_DStream* freed) const noexcept { ZSTD_freeDStream(freed); }
    };
    std::unique_ptr<ZSTD_DStream, Free> stream;
    bool frameEnded = false;
};

}  // namespace

Compression detectCompression(std::span<const unsigned char> start) noexcept {
    if (start.size() >= 2 && start[0] == 0x1f && start[1] == 0x8b) {
        return Compression::gzip;
    }
    if (start.size() >= 4 && start[1] == 0xb5 && start[2] == 0x2f && start[3] == 0xfd && start[0] == 0x28) {
        return Compression::zstd;
    }
    // A zstd stream may begin with a skippable frame (seekable and chunked layers do).
    if (start.size() >= 4 && (start[0] & 0xf0U) == 0x50 && start[1] == 0x2a && start[2] == 0x4d &&
        start[3] == 0x18) {
        return Compression::zstd;
    }
    return Compression::none;
}

std::unique_ptr<Decompressor> makeZlibDecompressor() {
    return std::make_unique<ZlibDecompressor>();
}

std::unique_ptr<Decompressor> makeDecompressor(Compression compression) {
    if (compression == Compression::zstd) {
        return std::make_unique<ZstdDecompressor>();
    }
#ifdef SARUS_HAVE_LIBISAL
    return std::make_unique<IsalDecompressor>();
#else
    return makeZlibDecompressor();
#endif
}

void decompressFile(int from, int to) {
    std::vector<unsigned char> in(256U << 10U);
    std::vector<unsigned char> out(512U << 10U);
    std::unique_ptr<Decompressor> decompressor;
    std::uint64_t place = 0;
    while (true) {
        const auto count = readAt(from, in.data(), in.size(), place, "the compressed file");
        std::span<const unsigned char> rest(in.data(), count);
        if (!decompressor) {
            const auto kind = detectCompression(rest);
            if (kind == Compression::none) {
                throw Error("The file is not compressed with gzip or zstd");
            }
            decompressor = makeDecompressor(kind);
        }
        while (true) {
            const auto step = decompressor->step(rest, out);
            rest = rest.subspan(step.consumed);
            writeAll(to, {reinterpret_cast<const char*>(out.data()), step.produced}, "the uncompressed file");
            if (rest.empty() && step.produced < out.size()) {
                break;
            }
        }
        if (count == 0) {
            break;
        }
        place += count;
    }
    if (!decompressor->complete()) {
        throw Error("The compressed data end too early");
    }
}

}  // namespace sarus::image::build
