#include "hooks/kit/linker_cache/library_table.hpp"

#include <climits>
#include <cstring>
#include <utility>

namespace sarus::hooks {

namespace {

/// Start of every list: change it when the layout changes. A sequence of records follows, each for a
/// directory or for a file in the last directory: the bits, the lengths of two texts, for a file also its
/// flags and state, then the texts. Numbers are in this machine's byte order, like those of the surrounding
/// cache.
constexpr std::string_view tableFormat("1\0", 2);

constexpr std::uint8_t directoryBit = 1;
constexpr std::uint8_t libraryBit = 2;
constexpr std::uint8_t onDeviceBit = 4;
/// The SONAME is a prefix of the name, as nearly always, and is not stored.
constexpr std::uint8_t sonameIsPrefixBit = 8;
constexpr std::uint8_t selfContainedBit = 16;

template <typename Number>
void put(std::string& out, Number number) {
    char bytes[sizeof number];
    std::memcpy(bytes, &number, sizeof number);
    out.append(bytes, sizeof bytes);
}

/// Takes numbers and texts from the start of a list; after its end it yields zeros and empty texts.
class Reader {
public:
    explicit Reader(std::string_view bytes) : rest(bytes) {}

    bool hasMore() const { return isGood && !rest.empty(); }
    bool isSound() const { return isGood; }
    std::string_view remaining() const { return rest; }

    template <typename Number>
    Number number() {
        Number value = 0;
        const auto bytes = text(sizeof value);
        std::memcpy(&value, bytes.data(), bytes.size());
        return value;
    }

    std::string_view text(std::size_t length) {
        isGood = isGood && length <= rest.size();
        const auto taken = rest.substr(0, isGood ? length : 0);
        rest.remove_prefix(taken.size());
        return taken;
    }

private:
    std::string_view rest;
    bool isGood = true;
};

bool isFileName(std::string_view text) {
    return text.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

/// One record, not yet copied. Its texts are empty if it is invalid.
struct Record {
    std::uint8_t bits = 0;
    std::string_view name;
    std::string_view soname{};
    std::uint32_t flags = 0;
    FileState state{};
};

Record readRecord(Reader& reader) {
    Record record;
    record.bits = reader.number<std::uint8_t>();
    const auto nameLength = reader.number<std::uint16_t>();
    const auto sonameLength = reader.number<std::uint16_t>();
    if ((record.bits & directoryBit) != 0) {
        record.name = reader.text(nameLength);
        return record;
    }
    record.flags = reader.number<std::uint32_t>();
    for (auto* number :
         {&record.state.inode, &record.state.size, &record.state.modified, &record.state.changed}) {
        *number = reader.number<std::uint64_t>();
    }
    record.state.isOnDevice = (record.bits & onDeviceBit) != 0;
    record.name = reader.text(nameLength);
    const bool isPrefix = (record.bits & sonameIsPrefixBit) != 0;
    record.soname = isPrefix ? record.name.substr(0, sonameLength) : reader.text(sonameLength);
    return record;
}

std::uint64_t inNanoseconds(const timespec& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

FileState fileStateOf(const struct stat& status, dev_t deviceOfDirectory) noexcept {
    return {status.st_ino, static_cast<std::uint64_t>(status.st_size), inNanoseconds(status.st_mtim),
            inNanoseconds(status.st_ctim), status.st_dev == deviceOfDirectory};
}

const LibraryTable::Entry* LibraryTable::Directory::find(const std::string& name,
                                                         const FileState& state) const {
    const auto found = entries.find(name);
    return found != entries.end() && found->second.state == state ? &found->second : nullptr;
}

LibraryTable LibraryTable::parse(std::string_view text) {
    LibraryTable table;
    if (!text.starts_with(tableFormat)) {
        return table;
    }
    Section* section = nullptr;
    const char* begin = nullptr;
    for (Reader reader(text.substr(tableFormat.size())); reader.hasMore();) {
        const auto record = readRecord(reader);
        if (!reader.isSound()) {
            break;
        }
        if ((record.bits & directoryBit) != 0) {
            section = &table.sections[std::string(record.name)];
            section->isSelfContained = (record.bits & selfContainedBit) != 0;
            begin = reader.remaining().data();
            section->bytes = reader.remaining().substr(0, 0);
        } else if (section == nullptr || !isFileName(record.soname)) {
            break;
        } else {
            section->bytes = {begin, static_cast<std::size_t>(reader.remaining().data() - begin)};
        }
    }
    return table;
}

LibraryTable::Directory LibraryTable::directory(const std::string& path) const {
    Directory directory;
    const auto* known = section(path);
    for (Reader reader(known != nullptr ? known->bytes : std::string_view()); reader.hasMore();) {
        const auto record = readRecord(reader);
        Entry entry{record.state, {}};
        if ((record.bits & libraryBit) != 0) {
            entry.library = Library{std::string(record.soname), record.flags};
        }
        directory.entries.insert_or_assign(std::string(record.name), std::move(entry));
    }
    return directory;
}

const LibraryTable::Section* LibraryTable::section(const std::string& path) const {
    const auto found = sections.find(path);
    return found != sections.end() ? &found->second : nullptr;
}

LibraryList::LibraryList() : text(tableFormat) {}

void LibraryList::beginDirectory(std::string_view path, bool isSelfContained) {
    isGood = isGood && path.size() <= UINT16_MAX;
    put(text, static_cast<std::uint8_t>(directoryBit | (isSelfContained ? selfContainedBit : 0)));
    put(text, static_cast<std::uint16_t>(path.size()));
    put(text, std::uint16_t{0});
    text += path;
}

void LibraryList::add(std::string_view name, const FileState& state, const Library* library) {
    const std::string_view soname =
        library != nullptr ? std::string_view(library->soname) : std::string_view();
    isGood = isGood && name.size() <= NAME_MAX && soname.size() <= PATH_MAX && text.size() <= maxLibraryList;
    if (!isGood) {
        return;
    }
    const bool isPrefix = name.starts_with(soname);
    put(text,
        static_cast<std::uint8_t>((library != nullptr ? libraryBit : 0) |
                                  (state.isOnDevice ? onDeviceBit : 0) | (isPrefix ? sonameIsPrefixBit : 0)));
    put(text, static_cast<std::uint16_t>(name.size()));
    put(text, static_cast<std::uint16_t>(soname.size()));
    put(text, library != nullptr ? library->flags : 0U);
    for (const auto number : {state.inode, state.size, state.modified, state.changed}) {
        put(text, number);
    }
    text += name;
    text += isPrefix ? std::string_view() : soname;
}

void LibraryList::addSection(std::string_view bytes) {
    text += bytes;
}

std::string LibraryList::finish() && {
    return isGood && text.size() <= maxLibraryList ? std::move(text) : std::string();
}

}  // namespace sarus::hooks
