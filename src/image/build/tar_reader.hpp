#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "image/build/byte_source.hpp"

namespace sarus::image::build {

/// One member of a tar archive, with names exactly as the archive has them: nothing is resolved, cleaned or followed here.
struct TarEntry {
    enum class Type { regular, hardLink, symlink, charDevice, blockDevice, directory, fifo };

    Type type = Type::regular;
    std::string path;
    std::string linkTarget;  ///< of hard and symbolic links
    std::uint16_t mode = 0;  ///< permission, set-id and sticky bits
    std::int64_t mtime = 0;  ///< seconds since the epoch, may be negative
    std::uint64_t size = 0;  ///< of the content of a regular file, holes included
    std::uint32_t deviceMajor = 0;
    std::uint32_t deviceMinor = 0;
    std::vector<std::pair<std::string, std::string>> xattrs;  ///< name and value, in the archive's order
};

/// Reads tar archives as layers contain them (OCI image specification, layer.md): POSIX ustar and pax interchange format, GNU
/// long names, GNU sparse files (old format and pax 0.0, 0.1, 1.0), v7. Every damage is an Error: a wrong checksum, a number
/// out of range, an end inside of a member. Limits: 2 MiB for an extended header, one million pieces for a sparse file.
/// Global pax headers are skipped, as other container tools do.
class TarReader {
public:
    explicit TarReader(ByteSource& bytes) : source(bytes) {}

    /// Goes to the next member; content that was not read is skipped. False at the archive's end.
    bool next(TarEntry& entry);

    /// Hands the content of the current regular file to `sink` in parts; holes come as zeros.
    void readContent(const std::function<void(std::span<const unsigned char>)>& sink);
    /// What the bytes that a sink has got last may belong to, or null.
    ChunkPtr chunk() const { return source.chunk(); }

private:
    struct Piece {
        std::uint64_t offset;
        std::uint64_t length;
    };
    /// What extended headers say about the next member.
    struct Extension {
        std::map<std::string, std::string> records;
        std::vector<std::pair<std::string, std::string>> xattrs;
        std::vector<std::string> sparseNumbers;  ///< offsets and lengths of pax sparse format 0.0, alternating
        std::string longName;
        std::string longLink;
        bool any = false;
    };
    using Block = std::span<const unsigned char, 512>;

    bool readBlock(unsigned char* block, bool mayEnd);
    void readExactly(unsigned char* data, std::uint64_t size);
    void skip(std::uint64_t size);
    std::string readMeta(std::uint64_t size);
    bool readHeader(unsigned char* block);
    bool readExtension(Block header, char typeFlag, std::uint64_t size, Extension& extension);
    void parsePax(std::string_view text, Extension& extension);
    void fillEntry(Block header, char typeFlag, std::uint64_t size, Extension& extension, TarEntry& entry);
    void setUpSparse(Block header, char typeFlag, Extension& extension, TarEntry& entry);
    void readOldSparseMap(Block header);
    void readPaxSparseMap(const Extension& extension, bool inData);
    void addPiece(std::uint64_t offset, std::uint64_t length);
    void emitZeros(std::uint64_t count, const std::function<void(std::span<const unsigned char>)>& sink);
    void emitStored(std::uint64_t count, const std::function<void(std::span<const unsigned char>)>& sink);

    ByteSource& source;
    std::uint64_t stored = 0;   ///< bytes of the current member's data that are still in the stream
    std::uint64_t padding = 0;  ///< behind them, up to the next block
    std::uint64_t logicalSize = 0;
    std::vector<Piece> pieces;  ///< of a sparse file
    bool sparse = false;
};

}  // namespace sarus::image::build
