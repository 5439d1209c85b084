#include "image/build/read/tar_reader.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

constexpr std::size_t blockSize = 512;
constexpr std::uint64_t largestExtension = 2U << 20U;
constexpr std::size_t mostPieces = 1U << 20U;
constexpr std::uint64_t largestSize = std::uint64_t{1} << 60U;
constexpr std::string_view xattrPrefix = "SCHILY.xattr.";

struct Field {
    std::size_t offset;
    std::size_t length;
};
constexpr Field nameField{0, 100};
constexpr Field modeField{100, 8};
constexpr Field uidField{108, 8};
constexpr Field gidField{116, 8};
constexpr Field sizeField{124, 12};
constexpr Field timeField{136, 12};
constexpr Field checksumField{148, 8};
constexpr std::size_t typeOffset = 156;
constexpr Field linkField{157, 100};
constexpr Field magicField{257, 8};
constexpr Field majorField{329, 8};
constexpr Field minorField{337, 8};
constexpr Field prefixField{345, 155};
constexpr std::string_view posixMagic("ustar\0", 6);
constexpr std::string_view gnuMagic("ustar  \0", 8);
constexpr std::size_t oldSparseMap = 386;
constexpr std::size_t oldSparseExtended = 482;
constexpr Field oldSparseRealSize{483, 12};

[[noreturn]] void damaged(std::string_view why) {
    throw Error(cat("The tar archive is damaged: ", why));
}

std::string_view fieldText(std::span<const unsigned char> block, Field field) {
    const std::string_view raw(reinterpret_cast<const char*>(block.data()) + field.offset, field.length);
    return raw.substr(0, raw.find('\0'));
}

std::string_view magicOf(std::span<const unsigned char> block) {
    return {reinterpret_cast<const char*>(block.data()) + magicField.offset, magicField.length};
}

/// Octal digits, optionally surrounded by blanks, or the base-256 form of GNU and star.
std::int64_t fieldNumber(std::span<const unsigned char> block, Field field, std::string_view name) {
    const auto raw = block.subspan(field.offset, field.length);
    if ((raw[0] & 0x80U) != 0) {
        const bool negative = (raw[0] & 0x40U) != 0;
        std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
        for (std::size_t i = 0; i < raw.size(); ++i) {
            unsigned int byte = raw[i];
            if (i == 0) {
                byte = negative ? byte | 0x80U : byte & 0x7fU;
            }
            const std::uint64_t lost = value >> 55U;
            if (lost != 0 && lost != (std::uint64_t{1} << 9U) - 1) {
                damaged(cat("a number in the field '", name, "' is too large"));
            }
            value = value << 8U | byte;
        }
        return static_cast<std::int64_t>(value);
    }
    std::string_view text = fieldText(block, field);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    text = text.substr(0, text.find_last_not_of(' ') + 1);
    std::uint64_t value = 0;
    for (const char digit : text) {
        if (digit < '0' || digit > '7') {
            damaged(cat("the field '", name, "' is not a number"));
        }
        value = value << 3U | static_cast<std::uint64_t>(digit - '0');
    }
    return static_cast<std::int64_t>(value);  // at most 12 octal digits
}

std::uint64_t fieldSize(std::span<const unsigned char> block, Field field, std::string_view name) {
    const auto value = fieldNumber(block, field, name);
    if (value < 0 || static_cast<std::uint64_t>(value) > largestSize) {
        damaged(cat("the field '", name, "' is out of range"));
    }
    return static_cast<std::uint64_t>(value);
}

std::optional<std::int64_t> lenientNumber(std::span<const unsigned char> block, Field field) {
    try {
        return fieldNumber(block, field, "");
    } catch (const Error&) {
        return std::nullopt;
    }
}

/// An owner that no system can have does not matter: most images lose their owners.
std::uint32_t ownerId(std::span<const unsigned char> block, Field field, const std::string* record) {
    constexpr std::int64_t noId = 0xFFFFFFFF;
    const auto value = record != nullptr ? static_cast<std::int64_t>(parseNumber(*record).value_or(noId))
                                         : lenientNumber(block, field).value_or(noId);
    return value >= 0 && value < noId ? static_cast<std::uint32_t>(value) : 0;
}

std::uint64_t textNumber(std::string_view text, std::string_view name) {
    const auto value = parseNumber(text);
    if (!value || *value > largestSize) {
        damaged(cat("'", name, "' is not a number in range"));
    }
    return *value;
}

/// The whole seconds of a pax time such as "-12.25", rounded down, and limited to the largest supported
/// value.
std::int64_t paxTime(std::string_view text) {
    const bool negative = !text.empty() && text[0] == '-';
    if (negative) {
        text.remove_prefix(1);
    }
    const auto point = text.find('.');
    const auto whole = text.substr(0, point);
    const auto fraction = point == std::string_view::npos ? std::string_view() : text.substr(point + 1);
    constexpr std::string_view digits = "0123456789";
    if (whole.empty() || whole.find_first_not_of(digits) != std::string_view::npos ||
        fraction.find_first_not_of(digits) != std::string_view::npos) {
        damaged("'mtime' is not a time");
    }
    const auto seconds =
        static_cast<std::int64_t>(std::min(parseNumber(whole).value_or(largestSize), largestSize));
    if (!negative) {
        return seconds;
    }
    return -seconds - (fraction.find_first_not_of('0') != std::string_view::npos ? 1 : 0);
}

bool isZero(std::span<const unsigned char> block) {
    return std::all_of(block.begin(), block.end(), [](unsigned char byte) { return byte == 0; });
}

bool checksumHolds(std::span<const unsigned char> block) {
    std::int32_t plain = 0;
    std::int32_t withSign = 0;  // some historic writers summed signed characters
    for (const auto byte : block) {
        plain += byte;
        withSign += static_cast<signed char>(byte);
    }
    for (const auto byte : block.subspan(checksumField.offset, checksumField.length)) {  // counts as blanks
        plain += ' ' - byte;
        withSign += ' ' - static_cast<signed char>(byte);
    }
    const auto stated = fieldNumber(block, checksumField, "checksum");
    return stated == plain || stated == withSign;
}

std::uint64_t paddingOf(std::uint64_t size) {
    return (blockSize - size % blockSize) % blockSize;
}

void refuseNul(std::string_view text, std::string_view what) {
    if (text.find('\0') != std::string_view::npos) {
        damaged(cat("a ", what, " contains a NUL character"));
    }
}

TarEntry::Type entryType(char flag, std::string_view path) {
    switch (flag) {
        case '\0':  // v7 archives mark directories only by a slash
            return !path.empty() && path.back() == '/' ? TarEntry::Type::directory : TarEntry::Type::regular;
        case '0':
        case '7':
        case 'S':
            return TarEntry::Type::regular;
        case '1':
            return TarEntry::Type::hardLink;
        case '2':
            return TarEntry::Type::symlink;
        case '3':
            return TarEntry::Type::charDevice;
        case '4':
            return TarEntry::Type::blockDevice;
        case '5':
            return TarEntry::Type::directory;
        case '6':
            return TarEntry::Type::fifo;
        default:
            throw Error(cat("The tar archive has the member '", printable(path),
                            "' of the unsupported type '", printable(std::string_view(&flag, 1)), "'"));
    }
}

}  // namespace

bool TarReader::readBlock(unsigned char* block, bool mayEnd) {
    if (mayEnd && source.peek().empty()) {
        return false;
    }
    readExactly(block, blockSize);
    return true;
}

void TarReader::readExactly(unsigned char* data, std::uint64_t size) {
    while (size > 0) {
        const auto bytes = source.peek();
        if (bytes.empty()) {
            damaged("it ends too early");
        }
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(size, bytes.size()));
        std::memcpy(data, bytes.data(), count);
        source.consume(count);
        data += count;
        size -= count;
    }
}

void TarReader::skip(std::uint64_t size) {
    if (source.skip(size) != size) {
        damaged("it ends too early");
    }
}

void TarReader::emitStored(std::uint64_t count,
                           const std::function<void(std::span<const unsigned char>)>& sink) {
    while (count > 0) {
        const auto bytes = source.peek();
        if (bytes.empty()) {
            damaged("it ends too early");
        }
        const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(count, bytes.size()));
        sink(bytes.first(part));
        source.consume(part);
        count -= part;
    }
}

std::string TarReader::readMeta(std::uint64_t size, Extension& extension) {
    if (size > largestExtension - extension.bytes) {
        damaged(cat("the extended headers of a member have more than ", largestExtension, " bytes"));
    }
    extension.bytes += size;
    std::string text(static_cast<std::size_t>(size), '\0');
    readExactly(reinterpret_cast<unsigned char*>(text.data()), size);
    skip(paddingOf(size));
    return text;
}

bool TarReader::readHeader(unsigned char* block) {
    if (!readBlock(block, true)) {
        return false;
    }
    if (isZero({block, blockSize})) {
        if (readBlock(block, true) && !isZero({block, blockSize})) {
            damaged("a member follows a single block of zeros");
        }
        return false;
    }
    if (!checksumHolds({block, blockSize})) {
        damaged("a header has a wrong checksum");
    }
    return true;
}

bool TarReader::next(TarEntry& entry) {
    skip(stored + padding);
    stored = 0;
    padding = 0;
    Extension extension;
    std::array<unsigned char, blockSize> block;
    while (true) {
        if (!readHeader(block.data())) {
            if (extension.any) {
                damaged("it ends after an extended header");
            }
            return false;
        }
        const char flag = static_cast<char>(block[typeOffset]);
        const std::uint64_t size = fieldSize(block, sizeField, "size");
        if (!readExtension(block, flag, size, extension)) {
            fillEntry(block, flag, size, extension, entry);
            return true;
        }
    }
}

/// True if the header was not a member but describes one.
bool TarReader::readExtension(Block, char flag, std::uint64_t size, Extension& extension) {
    switch (flag) {
        case 'x':
        case 'X':
            parsePax(readMeta(size, extension), extension);
            extension.any = true;
            ++extension.paxHeaders;
            return true;
        case 'L':
        case 'K': {
            const std::string text = readMeta(size, extension);
            if (text.empty() || text[0] == '\0') {
                damaged("a long name is empty");
            }
            (flag == 'L' ? extension.longName : extension.longLink) = text.substr(0, text.find('\0'));
            extension.any = true;
            return true;
        }
        case 'g':
            readMeta(size, extension);
            return true;
        case 'V':
            if (size > 0) {
                damaged("a volume label has data");
            }
            return true;
        default:
            return false;
    }
}

void TarReader::parsePax(std::string_view text, Extension& extension) {
    while (!text.empty()) {
        const auto blank = text.find(' ');
        const auto length =
            blank == std::string_view::npos ? std::nullopt : parseNumber(text.substr(0, blank));
        if (!length || *length <= blank + 1 || *length > text.size() || text[*length - 1] != '\n') {
            damaged("a pax record is malformed");
        }
        const std::string_view record = text.substr(blank + 1, *length - blank - 2);
        text.remove_prefix(*length);
        const auto equals = record.find('=');
        if (equals == std::string_view::npos || equals == 0) {
            damaged("a pax record is malformed");
        }
        const std::string_view key = record.substr(0, equals);
        const std::string_view value = record.substr(equals + 1);
        refuseNul(key, "pax keyword");
        if (key.starts_with(xattrPrefix)) {
            extension.xattrs.emplace_back(key.substr(xattrPrefix.size()), value);
            continue;
        }
        refuseNul(value, "pax record");
        if (key == "SCHILY.realsize" || key == "SUN.holesdata") {
            damaged("a sparse file has an unknown format");
        }
        const bool aboutSparse = key.starts_with("GNU.sparse.");
        extension.sparse = extension.sparse || aboutSparse;
        if (value.empty() && (aboutSparse || key == "size")) {
            damaged(cat("the pax record '", printable(key), "' is empty"));
        }
        if (key == "GNU.sparse.offset" || key == "GNU.sparse.numbytes") {
            // Some readers interpret another order, or a missing count, differently.
            const bool offset = extension.sparseNumbers.size() % 2 == 0;
            if (offset != (key == "GNU.sparse.offset") ||
                !extension.records.contains("GNU.sparse.numblocks")) {
                damaged("the map of a sparse file is inconsistent");
            }
            extension.sparseNumbers.emplace_back(value);
        } else if (value.empty()) {
            extension.records.erase(std::string(key));
        } else {
            extension.records[std::string(key)] = value;
        }
    }
}

void TarReader::fillEntry(Block header, char flag, std::uint64_t size, Extension& extension,
                          TarEntry& entry) {
    const auto record = [&](const char* key) -> const std::string* {
        const auto found = extension.records.find(key);
        return found == extension.records.end() ? nullptr : &found->second;
    };
    entry.path = extension.longName;
    if (const auto* path = record("path")) {
        entry.path = *path;
    } else if (extension.longName.empty()) {
        entry.path = fieldText(header, nameField);
        if (magicOf(header).starts_with(posixMagic) && !fieldText(header, prefixField).empty()) {
            entry.path = cat(fieldText(header, prefixField), '/', entry.path);
        }
    }
    entry.type = entryType(flag, entry.path);
    const auto* link = record("linkpath");
    entry.linkTarget = link != nullptr               ? *link
                       : !extension.longLink.empty() ? extension.longLink
                                                     : std::string(fieldText(header, linkField));
    refuseNul(entry.path, "name");
    refuseNul(entry.linkTarget, "link target");
    entry.mode = static_cast<std::uint16_t>(fieldNumber(header, modeField, "mode") & 07777);
    entry.uid = ownerId(header, uidField, record("uid"));
    entry.gid = ownerId(header, gidField, record("gid"));
    entry.mtime =
        record("mtime") != nullptr ? paxTime(*record("mtime")) : fieldNumber(header, timeField, "mtime");
    entry.xattrs = std::move(extension.xattrs);
    entry.deviceMajor = 0;
    entry.deviceMinor = 0;
    if (entry.type == TarEntry::Type::charDevice || entry.type == TarEntry::Type::blockDevice) {
        const auto major = fieldSize(header, majorField, "devmajor");
        const auto minor = fieldSize(header, minorField, "devminor");
        if (major >= 1U << 12U || minor >= 1U << 20U) {
            damaged(cat("the device number of '", printable(entry.path), "' is out of range"));
        }
        entry.deviceMajor = static_cast<std::uint32_t>(major);
        entry.deviceMinor = static_cast<std::uint32_t>(minor);
    }
    // Only regular files are followed by data, whatever the size field of other types says.
    const bool hasData = entry.type == TarEntry::Type::regular;
    stored = !hasData ? 0 : record("size") != nullptr ? textNumber(*record("size"), "size") : size;
    padding = paddingOf(stored);
    entry.size = stored;
    sparse = false;
    refuseAmbiguity(header, flag, size, extension, entry);
    if (hasData) {
        setUpSparse(header, flag, extension, entry);
    }
    if (hasData && entry.path.ends_with('/')) {
        damaged(cat("the file '", printable(entry.path), "' is named like a directory"));
    }
    logicalSize = entry.size;
}

/// Refuses what tar programs interpret differently: two programs must not see different trees in one archive.
void TarReader::refuseAmbiguity(Block header, char flag, std::uint64_t size, const Extension& extension,
                                const TarEntry& entry) const {
    const auto refuseIf = [&](bool ambiguous, std::string_view what) {
        if (ambiguous) {
            damaged(cat("the member '", printable(entry.path), "' has ", what));
        }
    };
    const auto has = [&](const char* key) { return extension.records.contains(key); };
    const bool isLink = entry.type == TarEntry::Type::hardLink || entry.type == TarEntry::Type::symlink;
    const bool hasData = entry.type == TarEntry::Type::regular;
    const std::string_view magic = magicOf(header);
    refuseIf(extension.paxHeaders > 1, "two extended headers");
    refuseIf((has("path") && !extension.longName.empty()) || (has("linkpath") && !extension.longLink.empty()),
             "two names");
    refuseIf(!isLink && (has("linkpath") || !extension.longLink.empty()),
             "a link target without being a link");
    refuseIf(entry.type == TarEntry::Type::hardLink && entry.linkTarget.empty(), "an empty link target");
    refuseIf(magic.starts_with("ustar") && !magic.starts_with(posixMagic) && magic != gnuMagic &&
                 header[prefixField.offset] != 0,
             "an unknown format");
    // Without an extended header POSIX ignores the size of a link; with one it does not.
    refuseIf(!hasData && has("size") && textNumber(extension.records.at("size"), "size") > 0,
             "data without being a file");
    refuseIf(flag == '1' && size > 0 && magic != gnuMagic && magic.starts_with("ustar"),
             "data without being a file");
    refuseIf(flag == '\0' && !hasData && size > 0, "data without being a file");
    const bool oldMap = header[oldSparseMap] != 0 || header[oldSparseRealSize.offset] != 0;
    refuseIf(flag != 'S' && magic == gnuMagic && oldMap, "a sparse map without being sparse");
    refuseIf(extension.sparse && !hasData, "a sparse map without being a file");
}

void TarReader::setUpSparse(Block header, char flag, Extension& extension, TarEntry& entry) {
    if (flag != 'S' && !extension.sparse) {
        return;
    }
    const auto& records = extension.records;
    const auto is = [&](const char* key, std::string_view value) {
        return records.contains(key) && records.at(key) == value;
    };
    const bool version1 = is("GNU.sparse.major", "1") && is("GNU.sparse.minor", "0");
    const bool other =
        !version1 && (records.contains("GNU.sparse.major") || records.contains("GNU.sparse.minor"));
    const bool old =
        magicOf(header) == gnuMagic && header[oldSparseMap] != 0 && header[oldSparseRealSize.offset] != 0;
    const int formats = int{flag == 'S' && old} + int{version1} + int{records.contains("GNU.sparse.map")} +
                        int{!extension.sparseNumbers.empty()};
    const bool twoSizes = records.contains("GNU.sparse.realsize") && records.contains("GNU.sparse.size");
    if (formats != 1 || other || twoSizes || (flag == 'S' && extension.sparse)) {
        damaged(cat("the sparse file '", printable(entry.path), "' has an unknown format"));
    }
    sparse = true;
    pieces.clear();
    if (flag == 'S') {
        entry.size = fieldSize(header, oldSparseRealSize, "realsize");
        readOldSparseMap(header);
    } else {
        const char* sizeKey =
            records.contains("GNU.sparse.realsize") ? "GNU.sparse.realsize" : "GNU.sparse.size";
        if (!records.contains(sizeKey)) {
            damaged("a sparse file lacks its size");
        }
        entry.size = textNumber(records.at(sizeKey), sizeKey);
        if (records.contains("GNU.sparse.name")) {
            entry.path = records.at("GNU.sparse.name");
            refuseNul(entry.path, "name");
        }
        readPaxSparseMap(extension, version1);
    }
    std::uint64_t total = 0;
    std::uint64_t end = 0;
    for (const auto& piece : pieces) {
        if (piece.offset < end || piece.offset > entry.size || piece.length > entry.size - piece.offset) {
            damaged(cat("the map of the sparse file '", printable(entry.path), "' is inconsistent"));
        }
        end = piece.offset + piece.length;
        total += piece.length;
    }
    if (total != stored) {
        damaged(cat("the map of the sparse file '", printable(entry.path), "' does not match its data"));
    }
}

void TarReader::addPiece(std::uint64_t offset, std::uint64_t length) {
    if (pieces.size() == mostPieces) {
        damaged("a sparse file has too many pieces");
    }
    if (length > 0) {
        pieces.push_back({offset, length});
    }
}

void TarReader::readOldSparseMap(Block header) {
    std::array<unsigned char, blockSize> extended;
    std::span<const unsigned char> block = header;
    std::size_t position = oldSparseMap;
    std::size_t slots = 4;
    std::size_t moreFlag = oldSparseExtended;
    bool ended = false;
    while (true) {
        for (std::size_t i = 0; i < slots; ++i, position += 24) {
            if (block[position] == 0) {
                ended = true;
            } else if (ended) {
                damaged("the map of a sparse file has a gap");
            } else {
                addPiece(fieldSize(block, {position, 12}, "sparse offset"),
                         fieldSize(block, {position + 12, 12}, "sparse length"));
            }
        }
        if (block[moreFlag] == 0) {
            return;
        }
        readBlock(extended.data(), false);
        block = extended;
        position = 0;
        slots = 21;
        moreFlag = 504;
    }
}

void TarReader::readPaxSparseMap(const Extension& extension, bool inData) {
    std::vector<std::string> numbers = extension.sparseNumbers;
    if (inData) {
        // Lines of decimal numbers before the data, padded to a whole block: their count, then offsets and
        // lengths.
        std::array<unsigned char, blockSize> block;
        std::string text;
        std::uint64_t wanted = 1;
        numbers.clear();
        while (numbers.size() < wanted) {
            if (stored < blockSize) {
                damaged("the map of a sparse file is incomplete");
            }
            readBlock(block.data(), false);
            stored -= blockSize;
            text.append(reinterpret_cast<const char*>(block.data()), blockSize);
            std::size_t line = 0;
            for (auto end = text.find('\n'); end != std::string::npos && numbers.size() < wanted;
                 end = text.find('\n', line)) {
                numbers.push_back(text.substr(line, end - line));
                line = end + 1;
                if (numbers.size() == 1) {
                    wanted =
                        1 + 2 * std::min<std::uint64_t>(textNumber(numbers[0], "sparse map"), mostPieces + 1);
                }
            }
            text.erase(0, line);
        }
        numbers.erase(numbers.begin());
    } else if (extension.records.contains("GNU.sparse.map")) {
        numbers = split(extension.records.at("GNU.sparse.map"), ',');
    }
    if (numbers.size() % 2 != 0) {
        damaged("the map of a sparse file is incomplete");
    }
    for (std::size_t i = 0; i < numbers.size(); i += 2) {
        addPiece(textNumber(numbers[i], "sparse offset"), textNumber(numbers[i + 1], "sparse length"));
    }
}

void TarReader::emitZeros(std::uint64_t count,
                          const std::function<void(std::span<const unsigned char>)>& sink) {
    static const std::array<unsigned char, 65536> zeros{};
    while (count > 0) {
        const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(count, zeros.size()));
        sink({zeros.data(), part});
        count -= part;
    }
}

void TarReader::readContent(const std::function<void(std::span<const unsigned char>)>& sink) {
    if (!sparse) {
        emitStored(stored, sink);
        stored = 0;
        return;
    }
    std::uint64_t position = 0;
    for (const auto& piece : pieces) {
        emitZeros(piece.offset - position, sink);
        emitStored(piece.length, sink);
        position = piece.offset + piece.length;
    }
    stored = 0;
    emitZeros(logicalSize - position, sink);
}

}  // namespace sarus::image::build
