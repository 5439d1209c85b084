#include "hooks/kit/host_library.hpp"

#include <fcntl.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

std::string HostLibrary::fileName() const {
    return fileNameOf(path);
}

std::string HostLibrary::soname() const {
    return elf.soname.value_or(fileName());
}

std::vector<std::string> parsePathList(std::string_view variable, std::string_view value) {
    std::vector<std::string> paths;
    for (const auto& path : split(value, ':')) {
        if (path.empty() || std::find(paths.begin(), paths.end(), path) != paths.end()) {
            continue;
        }
        if (path.front() != '/') {
            throw Error(cat(variable, " contains a path that is not absolute: ", printable(path)));
        }
        paths.push_back(path);
    }
    return paths;
}

HostLibrary readHostLibrary(const std::string& path) {
    const auto shown = printable(path);
    const auto file = openFile(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    auto elf = readElf(file.get());
    if (!elf || !elf->isDynamic) {
        throw Error(cat("The host library ", shown, " is not a shared library"),
                    "Check the environment of the hook's JSON file");
    }
    HostLibrary library{path, {}, std::move(*elf)};
    library.name = resolveHostLibraryName(path).value_or(LibraryName{library.fileName(), {}});
    completeVersion(library.name, library.elf);
    return library;
}

bool isSameMachine(const ElfFile& a, const ElfFile& b) noexcept {
    return a.machine == b.machine && a.is64Bit == b.is64Bit && a.isBigEndian == b.isBigEndian;
}

void completeVersion(LibraryName& name, const ElfFile& elf) {
    const auto soname = name.version.empty() && elf.soname ? parseLibraryName(*elf.soname) : std::nullopt;
    if (soname && soname->linkerName == name.linkerName) {
        name.version = soname->version;
    }
}

}  // namespace sarus::hooks
