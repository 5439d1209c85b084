#include "base/config_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "base/trusted_file.hpp"

namespace sarus {

namespace {

constexpr std::size_t maxFileSize = 1U << 20U;
constexpr std::size_t maxFiles = 1000;

}  // namespace

std::vector<std::string> listFiles(int directory, const std::string& path,
                                   std::initializer_list<std::string_view> suffixes) {
    auto entries = Directory::of(directory, path);
    std::vector<std::string> files;
    while (const char* entry = entries.next()) {
        const std::string_view name = entry;
        if (std::any_of(suffixes.begin(), suffixes.end(),
                        [&](auto suffix) { return name.ends_with(suffix); })) {
            files.push_back(cat(path, path.ends_with('/') ? "" : "/", name));
        }
        if (files.size() > maxFiles) {
            throw Error(cat("There are more than ", maxFiles, " configuration files in ", printable(path)));
        }
    }
    std::sort(files.begin(), files.end());
    return files;
}

std::string readCheckedFile(int directory, const std::string& path, const ConfigFileCheck& check) {
    const auto name = fileNameOf(path);
    // O_NONBLOCK: a FIFO in place of the file must not block the reader.
    constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    UniqueFd file(::openat(directory, name.c_str(), flags | O_NOFOLLOW));
    const bool throughLink = !file && errno == ELOOP;
    if (throughLink) {
        file.reset(::openat(directory, name.c_str(), flags));
    }
    checkErrno(file.get(), cat("Failed to open ", printable(path)));
    struct stat status {};
    checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", printable(path)));
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat(printable(path), " is not a regular file"));
    }
    if (check) {
        check({.path = path, .status = status, .throughLink = throughLink});
    }
    return readAll(file.get(), maxFileSize, printable(path));
}

std::vector<ConfigFile> readTrustedFiles(const std::string& directory,
                                         std::initializer_list<std::string_view> suffixes, bool mustBeRoots) {
    const auto place = openTrustedDirectory(directory, mustBeRoots);
    std::vector<ConfigFile> files;
    for (auto& path : listFiles(place.get(), directory, suffixes)) {
        if (path[path.rfind('/') + 1] == '.') {
            continue;
        }
        ConfigFile file{.path = std::move(path), .text = {}, .problem = {}};
        try {
            struct stat status {};
            file.text = readCheckedFile(place.get(), file.path,
                                        [&](const OpenConfigFile& open) { status = open.status; });
            if (mustBeRoots) {
                requireRootsOwn(status, file.path);
            }
        } catch (const Error& error) {
            file.problem = error;
        }
        files.push_back(std::move(file));
    }
    return files;
}

}  // namespace sarus
