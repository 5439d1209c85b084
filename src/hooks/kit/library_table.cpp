#include "hooks/kit/library_table.hpp"

#include <climits>
#include <cstring>
#include <utility>

namespace sarus::hooks {

namespace {

/// Begins every list: another layout needs another text here. What follows is a sequence of records, each for a directory or for
/// a file in the last directory: the bits, the lengths of two texts, of a file also its flags and state, then the texts. Numbers
/// are in the order of this machine, as those of the cache around the list.
constexpr std::string_view kFormat("1\0", 2);

constexpr std::uint8_t kDirectory = 1;
constexpr std::uint8_t kLibrary = 2;
constexpr std::uint8_t kOnDevice = 4;
/// The SONAME is the beginning of the name, as nearly always, and is not written out.
constexpr std::uint8_t kSonameIsPrefix = 8;

template <typename Number>
void put(std::string& out, Number number) {
    char bytes[sizeof number];
    std::memcpy(bytes, &number, sizeof number);
    out.append(bytes, sizeof bytes);
}

/// Takes numbers and texts from the beginning of a list; after its end there are zeros and empty texts.
class Reader {
public:
    explicit Reader(std::string_view bytes) : rest(bytes) {}

    bool hasMore() const { return isGood && !rest.empty(); }
    bool isSound() const { return isGood; }

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

std::uint64_t inNanoseconds(const timespec& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

FileState fileStateOf(const struct stat& status, dev_t deviceOfDirectory) noexcept {
    return {status.st_ino, static_cast<std::uint64_t>(status.st_size), inNanoseconds(status.st_mtim),
            inNanoseconds(status.st_ctim), status.st_dev == deviceOfDirectory};
}

const LibraryTable::Entry* LibraryTable::Directory::find(const std::string& name, const FileState& state) const {
    const auto found = entries.find(name);
    return found != entries.end() && found->second.state == state ? &found->second : nullptr;
}

LibraryTable LibraryTable::parse(std::string_view text) {
    LibraryTable table;
    if (!text.starts_with(kFormat)) {
        return table;
    }
    Directory* directory = nullptr;
    for (Reader reader(text.substr(kFormat.size())); reader.hasMore();) {
        const auto bits = reader.number<std::uint8_t>();
        const auto nameLength = reader.number<std::uint16_t>();
        const auto sonameLength = reader.number<std::uint16_t>();
        if ((bits & kDirectory) != 0) {
            const auto path = reader.text(nameLength);
            if (!reader.isSound()) {
                break;
            }
            directory = &table.directories[std::string(path)];
            continue;
        }
        Entry entry;
        const auto flags = reader.number<std::uint32_t>();
        for (auto* number : {&entry.state.inode, &entry.state.size, &entry.state.modified, &entry.state.changed}) {
            *number = reader.number<std::uint64_t>();
        }
        entry.state.isOnDevice = (bits & kOnDevice) != 0;
        const auto name = reader.text(nameLength);
        const bool isPrefix = (bits & kSonameIsPrefix) != 0;
        const auto soname = isPrefix ? name.substr(0, sonameLength) : reader.text(sonameLength);
        if (!reader.isSound() || directory == nullptr || !isFileName(soname)) {
            break;
        }
        if ((bits & kLibrary) != 0) {
            entry.library = Library{std::string(soname), flags};
        }
        directory->entries.insert_or_assign(std::string(name), std::move(entry));
    }
    return table;
}

const LibraryTable::Directory& LibraryTable::directory(const std::string& path) const {
    static const Directory none;
    const auto found = directories.find(path);
    return found != directories.end() ? found->second : none;
}

LibraryList::LibraryList() : text(kFormat) {}

void LibraryList::beginDirectory(std::string_view path) {
    isGood = isGood && path.size() <= UINT16_MAX;
    put(text, kDirectory);
    put(text, static_cast<std::uint16_t>(path.size()));
    put(text, std::uint16_t{0});
    text += path;
}

void LibraryList::add(std::string_view name, const FileState& state, const Library* library) {
    const std::string_view soname = library != nullptr ? std::string_view(library->soname) : std::string_view();
    isGood = isGood && name.size() <= NAME_MAX && soname.size() <= PATH_MAX && text.size() <= kMaxLibraryList;
    if (!isGood) {
        return;
    }
    const bool isPrefix = name.starts_with(soname);
    put(text, static_cast<std::uint8_t>((library != nullptr ? kLibrary : 0) | (state.isOnDevice ? kOnDevice : 0) |
                                        (isPrefix ? kSonameIsPrefix : 0)));
    put(text, static_cast<std::uint16_t>(name.size()));
    put(text, static_cast<std::uint16_t>(soname.size()));
    put(text, library != nullptr ? library->flags : 0U);
    for (const auto number : {state.inode, state.size, state.modified, state.changed}) {
        put(text, number);
    }
    text += name;
    text += isPrefix ? std::string_view() : soname;
}

std::string LibraryList::finish() && {
    return isGood && text.size() <= kMaxLibraryList ? std::move(text) : std::string();
}

}  // namespace sarus::hooks
