#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "hooks/kit/linker_cache/library_table.hpp"

/// A foreign list is read without harm, and what is written reads back: the input's pieces between newlines,
/// as names of files and of libraries.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace sarus::hooks;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const FileState state{size, 1, 2, 3, true};
    LibraryTable::parse(bytes).directory("/lib").find("libx.so", state);
    const auto end = std::min(bytes.find('\n'), size);
    const std::string name(bytes.substr(0, end));
    const Library library{std::string(bytes.substr(std::min(end + 1, size))), 3};
    LibraryList list;
    list.beginDirectory("/lib");
    list.add(name, state, &library);
    list.add(name, state, &library);
    const auto text = std::move(list).finish();
    const auto table = LibraryTable::parse(text);
    const auto known = table.directory("/lib");
    const auto* entry = known.find(name, state);
    const bool isFileName = library.soname.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
    if (!text.empty() && (isFileName ? entry == nullptr || entry->library != library : entry != nullptr)) {
        std::abort();
    }
    return 0;
}
