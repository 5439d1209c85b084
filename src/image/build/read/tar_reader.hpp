#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "image/build/bytes/byte_source.hpp"
#include "image/build/read/member_source.hpp"

namespace sarus::image::build {

/// Reads tar archives as layers contain them (OCI image specification, layer.md): POSIX ustar and pax
/// interchange format, GNU long names, GNU sparse files (old format and pax 0.0, 0.1, 1.0), v7. Throws Error
/// for all damage (a wrong checksum, a number out of range, an end inside a member), and for content that tar
/// programs interpret differently. Limits: 2 MiB for an extended header, one million pieces for a sparse
/// file. Skips global pax headers, as other container tools do.
class TarReader final : public MemberSource {
public:
    explicit TarReader(ByteSource& bytes) : source(bytes) {}

    /// Advances to the next member and skips unread content. False at the archive's end.
    bool next(TarEntry& entry) override;

    /// Passes the content of the current regular file to `sink` in parts; holes are zeros.
    void readContent(const std::function<void(std::span<const unsigned char>)>& sink) override;
    /// Whether the current member is a sparse file: the archive does not store its content contiguously.
    bool isSparse() const noexcept { return sparse; }
    /// The owner of the bytes last passed to a sink, or null.
    ChunkPtr chunk() const override { return source.chunk(); }

private:
    struct Piece {
        std::uint64_t offset;
        std::uint64_t length;
    };
    /// The data of extended headers about the next member.
    struct Extension {
        std::map<std::string, std::string> records;
        std::vector<std::pair<std::string, std::string>> xattrs;
        /// Offsets and lengths of pax sparse format 0.0, alternating.
        std::vector<std::string> sparseNumbers;
        std::string longName;
        std::string longLink;
        bool any = false;
        bool sparse = false;  ///< whether a record concerns sparse files
        int paxHeaders = 0;
        std::uint64_t bytes = 0;  ///< of all headers before the member
    };
    using Block = std::span<const unsigned char, 512>;

    bool readBlock(unsigned char* block, bool mayEnd);
    void readExactly(unsigned char* data, std::uint64_t size);
    void skip(std::uint64_t size);
    std::string readMeta(std::uint64_t size, Extension& extension);
    bool readHeader(unsigned char* block);
    bool readExtension(Block header, char typeFlag, std::uint64_t size, Extension& extension);
    void parsePax(std::string_view text, Extension& extension);
    void fillEntry(Block header, char typeFlag, std::uint64_t size, Extension& extension, TarEntry& entry);
    void refuseAmbiguity(Block header, char flag, std::uint64_t size, const Extension& extension,
                         const TarEntry& entry) const;
    void setUpSparse(Block header, char typeFlag, Extension& extension, TarEntry& entry);
    void readOldSparseMap(Block header);
    void readPaxSparseMap(const Extension& extension, bool inData);
    void addPiece(std::uint64_t offset, std::uint64_t length);
    void emitZeros(std::uint64_t count, const std::function<void(std::span<const unsigned char>)>& sink);
    void emitStored(std::uint64_t count, const std::function<void(std::span<const unsigned char>)>& sink);

    ByteSource& source;
    std::uint64_t stored = 0;   ///< bytes of the current member's data that are still in the stream
    std::uint64_t padding = 0;  ///< after them, up to the next block
    std::uint64_t logicalSize = 0;
    std::vector<Piece> pieces;  ///< of a sparse file
    bool sparse = false;
};

}  // namespace sarus::image::build
