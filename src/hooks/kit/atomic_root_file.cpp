#include "hooks/kit/atomic_root_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

void replaceFileInRoot(int root, std::string_view path, std::string_view content, mode_t mode) {
    const auto slash = path.rfind('/');
    const auto shown = cat(printable(path), " of the container");
    const std::string name(path.substr(slash + 1));
    const auto directory = tryOpenInRoot(root, slash == 0 ? "/" : path.substr(0, slash));
    if (!directory) {
        throwErrno(cat("Failed to open the directory of ", shown));
    }
    const auto temporary = cat('.', name, '-', randomLetters());
    try {
        const auto file = openFileAt(directory.get(), temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        writeAll(file.get(), content, shown);
        checkErrno(::fchmod(file.get(), mode), cat("Failed to set the mode of ", shown));
        checkErrno(::renameat(directory.get(), temporary.c_str(), directory.get(), name.c_str()),
                   cat("Failed to replace ", shown));
    } catch (...) {
        ::unlinkat(directory.get(), temporary.c_str(), 0);
        throw;
    }
}

}  // namespace sarus::hooks
