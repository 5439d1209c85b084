#include "hooks/kit/root_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

UniqueFd tryOpenDirectoryInRoot(int root, std::string_view path) {
    const auto place = tryOpenInRoot(root, path);
    return UniqueFd(place ? ::openat(place.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
}

UniqueFd tryOpenFileInRoot(int root, std::string_view path) {
    const auto place = tryOpenInRoot(root, path);
    struct stat status {};
    if (!place || ::fstat(place.get(), &status) != 0) {
        return {};
    }
    if (!S_ISREG(status.st_mode)) {
        errno = EINVAL;
        return {};
    }
    // The descriptor is known to be a regular file, so nothing is looked up again and nothing can block.
    return UniqueFd(::open(descriptorPath(place.get()).c_str(), O_RDONLY | O_CLOEXEC));
}

std::optional<std::string> tryReadFileInRoot(int root, const std::string& path, std::size_t limit) {
    const auto file = tryOpenFileInRoot(root, path);
    if (!file) {
        return std::nullopt;
    }
    return readAll(file.get(), limit, cat(printable(path), " of the container"));
}

}  // namespace sarus::hooks
