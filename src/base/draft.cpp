#include "base/draft.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"

namespace sarus {

Draft::Draft(std::string thePath, mode_t mode)
    : path(std::move(thePath)),
      file(::open(directoryOf(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode)) {
    if (!file) {
        auto name = cat(path, '-', randomLetters());
        file = openFile(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
        temporary = std::move(name);
    }
}

Draft::~Draft() {
    if (!temporary.empty()) {
        ::unlink(temporary.c_str());
    }
}

void Draft::flushFile() const {
    checkErrno(::fsync(file.get()), cat("Failed to flush ", printable(path)));
}

void Draft::flushDirectory() const {
    const UniqueFd directory(::open(directoryOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory || errno != EACCES) {
        checkErrno(::fsync(directory.get()), cat("Failed to flush the directory of ", printable(path)));
    }
}

bool Draft::link(const std::string& name) const {
    if (::linkat(AT_FDCWD, descriptorPath(file.get()).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) ==
        0) {
        return true;
    }
    if (errno != EEXIST) {
        throwErrno(cat("Failed to create ", printable(path)));
    }
    return false;
}

void Draft::replace() {
    flushFile();
    while (temporary.empty()) {
        auto name = cat(path, '-', randomLetters());
        if (link(name)) {
            temporary = std::move(name);
        }
    }
    checkErrno(::rename(temporary.c_str(), path.c_str()), cat("Failed to replace ", printable(path)));
    temporary.clear();
    flushDirectory();
}

bool Draft::create(Flush flush) {
    if (flush == Flush::yes) {
        flushFile();
    }
    if (temporary.empty()) {
        if (!link(path)) {
            return false;
        }
    } else if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) {
        temporary.clear();
    } else if (errno != EINVAL ||
               ::link(temporary.c_str(), path.c_str()) != 0) {  // NFS and others know only link(2)
        if (errno != EEXIST) {
            throwErrno(cat("Failed to create ", printable(path)));
        }
        return false;
    }
    if (flush == Flush::yes) {
        flushDirectory();
    }
    return true;
}

}  // namespace sarus
