#include "podman_hpc/store/work_directory.hpp"

#include <fcntl.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr std::string_view workPrefix = "migrate-";

UniqueFd openDirectory(const std::string& path) {
    return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

void removeAbandoned(const std::string& parent) {
    std::vector<std::string> names;
    Directory entries(parent, Missing::isError);
    while (const char* name = entries.next()) {
        if (std::string_view(name).starts_with(workPrefix)) {
            names.push_back(cat(parent, '/', name));
        }
    }
    for (const auto& name : names) {
        const auto fd = openDirectory(name);
        if (fd && tryLock(fd.get(), LockMode::exclusive) == LockResult::held) {
            removeTree(name);
        }
    }
}

}  // namespace

WorkDirectory::WorkDirectory(const std::string& parent) {
    createDirectories(parent, 0700);
    removeAbandoned(parent);
    do {
        name = cat(parent, '/', workPrefix, randomLetters());
    } while (!take());
}

/// False if another program has removed it before it was locked.
bool WorkDirectory::take() {
    createDirectories(name, 0700);
    directory = openDirectory(name);
    if (!directory && errno != ENOENT) {
        throwErrno(cat("Failed to open ", printable(name)));
    }
    // Without locks, a killed program's files stay.
    return directory && tryLock(directory.get(), LockMode::exclusive) != LockResult::busy &&
           hasName(directory.get(), name);
}

WorkDirectory::~WorkDirectory() {
    try {
        removeTree(name);
    } catch (const Error& error) {
        printError(cat("WARNING: ", error.what()));
    }
}

}  // namespace sarus::podman_hpc
