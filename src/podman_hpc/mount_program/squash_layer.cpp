#include "podman_hpc/mount_program/squash_layer.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mounts.hpp"
#include "base/text.hpp"
#include "squashfs/superblock.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr const char* migrateAgain =
    "Remove the image with 'podman-hpc rmsqi', and migrate it again; or give SQUASH_DIR another store";

/// Never waits, as opening a FIFO would.
UniqueFd openOwn(const std::string& path) {
    return UniqueFd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

bool isLinkName(std::string_view name) {
    constexpr std::size_t longest = 64;  // containers/storage uses 26
    return !name.empty() && name.size() <= longest && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    });
}

/// The link of the layer STORE/overlay/ID/diff: STORE/overlay/l/LINK. "" if it has none.
std::string linkOf(const std::string& layer) {
    constexpr std::string_view end = "/diff";
    if (!layer.ends_with(end)) {
        return "";
    }
    const auto directory = layer.substr(0, layer.size() - end.size());
    const auto file = openOwn(cat(directory, "/link"));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return "";
    }
    constexpr std::size_t limit = 4096;
    const auto name = readAll(file.get(), limit, directory);
    const auto slash = directory.rfind('/');
    return isLinkName(trim(name)) && slash != std::string::npos
               ? cat(directory.substr(0, slash), "/l/", trim(name))
               : "";
}

UniqueFd openSquash(const std::string& path) {
    auto file = openOwn(path);
    if (!file && errno == ELOOP) {
        throw Error(cat("Failed to open ", printable(path), ": it is a symbolic link"), migrateAgain);
    }
    if (!file && errno != ENOENT && errno != ENOTDIR) {
        throwErrno(cat("Failed to open ", printable(path)));
    }
    return file;
}

}  // namespace

std::optional<SquashLayer> findSquashLayer(const OverlayRequest& request) {
    for (std::size_t position = 0; position < request.lower.size(); ++position) {
        SquashLayer found{.position = position, .path = request.lower[position] + ".squash"};
        found.file = openSquash(found.path);
        if (const auto link = found.file ? "" : linkOf(request.lower[position]); !link.empty()) {
            found.path = link + ".squash";
            found.file = openSquash(found.path);
        }
        if (!found.file) {
            continue;
        }
        try {
            const auto status = squashfs::readSquashfsSuperblock(found.file.get(), found.path).file;
            constexpr mode_t othersMayWrite = 022;
            found.owner = status.st_uid;
            found.group = status.st_gid;
            found.isRootsOwn = status.st_uid == 0 && (status.st_mode & othersMayWrite) == 0 &&
                               whyNotByKernel(found.file.get()).empty();
        } catch (Error& error) {
            throw error.setHint(migrateAgain);
        }
        return found;
    }
    return std::nullopt;
}

}  // namespace sarus::podman_hpc
