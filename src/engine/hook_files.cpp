#include "engine/hook_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::engine {

namespace {

constexpr std::size_t largestFile = 1U << 20U;
constexpr std::size_t mostFiles = 1000;

}  // namespace

std::vector<std::string> listFiles(int directory, const std::string& path, std::initializer_list<std::string_view> suffixes) {
    UniqueFd fd(
        checkErrno(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), cat("Failed to list ", printable(path))));
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(fd.get()), &::closedir);
    if (!entries) {
        throwErrno(cat("Failed to list ", printable(path)));
    }
    fd.release();  // owned by the DIR now
    std::vector<std::string> files;
    while (const dirent* entry = ::readdir(entries.get())) {
        const std::string_view name = static_cast<const char*>(entry->d_name);
        if (std::any_of(suffixes.begin(), suffixes.end(), [&](auto suffix) { return name.ends_with(suffix); })) {
            files.push_back(cat(path, path.ends_with('/') ? "" : "/", name));
        }
        if (files.size() > mostFiles) {
            throw Error(cat("There are more than ", mostFiles, " configuration files in ", printable(path)));
        }
    }
    std::sort(files.begin(), files.end());
    return files;
}

std::vector<std::string> listHookFiles(int directory, const std::string& path) {
    return listFiles(directory, path, {".json"});
}

std::string readCheckedFile(int directory, const std::string& path, const ConfigFileCheck& check) {
    const auto name = path.substr(path.rfind('/') + 1);
    // O_NONBLOCK: a FIFO in the file's place must not stop the reader.
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
    return readAll(file.get(), largestFile, printable(path));
}

oci::HookConfig readHookFile(int directory, const std::string& path, const ConfigFileCheck& check) {
    return oci::parseHookConfig(readCheckedFile(directory, path, check), path);
}

std::vector<oci::HookConfig> readHookFiles(int directory, const std::string& path, const ConfigFileCheck& check) {
    std::vector<oci::HookConfig> hooks;
    for (const auto& file : listHookFiles(directory, path)) {
        hooks.push_back(readHookFile(directory, file, check));
    }
    return hooks;
}

}  // namespace sarus::engine
