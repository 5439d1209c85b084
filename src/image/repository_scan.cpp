#include "image/repository_scan.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <span>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

constexpr std::size_t maxDepth = 64;

struct CloseDir {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

struct Entry {
    std::string name;
    bool directory = false;
};

std::vector<Entry> listDirectory(const std::string& path) {
    const std::unique_ptr<DIR, CloseDir> directory(::opendir(path.c_str()));
    if (!directory) {
        if (errno == ENOENT) {
            return {};
        }
        throwErrno(cat("Failed to list ", printable(path)));
    }
    std::vector<Entry> entries;
    while (const dirent* entry = ::readdir(directory.get())) {
        const std::string name = entry->d_name;
        if (name == "." || name == "..") {
            continue;
        }
        bool isSubdirectory = entry->d_type == DT_DIR;
        if (entry->d_type == DT_UNKNOWN) {
            struct stat status {};
            isSubdirectory =
                ::fstatat(::dirfd(directory.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
        }
        entries.push_back({name, isSubdirectory});
    }
    return entries;
}

void noteTemporary(const std::string& path, RepositoryScan& scan) {
    const auto dash = path.find_last_of('-');
    if (dash == std::string::npos || !isSuffix(std::string_view(path).substr(dash + 1))) {
        return;
    }
    const auto finalPath = path.substr(0, dash);
    const bool metadata = finalPath.ends_with(".meta");
    struct stat status {};
    if ((metadata || finalPath.ends_with(".squashfs")) && ::lstat(path.c_str(), &status) == 0) {
        scan.temporaries.push_back({path, finalPath, path.substr(dash + 1), metadata, status.st_mtime});
    }
}

void walk(const RepositoryPaths& paths, const std::string& relative, std::size_t depth, RepositoryScan& scan) {
    for (const auto& entry : listDirectory(cat(paths.images(), '/', relative))) {
        const auto name = relative.empty() ? entry.name : cat(relative, '/', entry.name);
        if (entry.directory) {
            if (depth < maxDepth) {
                walk(paths, name, depth + 1, scan);
            }
        } else if (name.ends_with(".squashfs")) {
            scan.images[name.substr(0, name.size() - 9)].squashfs = true;
        } else if (name.ends_with(".meta")) {
            scan.images[name.substr(0, name.size() - 5)].metadata = true;
        } else {
            noteTemporary(cat(paths.images(), '/', name), scan);
        }
    }
}

}  // namespace

RepositoryScan scanImages(const RepositoryPaths& paths) {
    RepositoryScan scan;
    walk(paths, "", 0, scan);
    std::erase_if(scan.images, [](const auto& entry) { return !referenceOfKey(entry.first); });
    return scan;
}

std::optional<ImageReference> referenceOfKey(const std::string& key) {
    const auto components = split(key, '/');
    const auto count = components.size();
    if (count < 3) {
        return std::nullopt;
    }
    const auto middle = std::span(components).subspan(1, count - 3);
    ImageReference reference{components[0], join(middle, "/"), components[count - 2], components[count - 1], ""};
    if (const auto dash = reference.tag.find_last_of('-'); dash != std::string::npos) {
        auto digest = reference.tag;
        digest[dash] = ':';
        if (digest.starts_with("sha")) {
            try {
                const ImageReference byDigest{reference.server, reference.imageNamespace, reference.image, "", digest};
                if (parseReference(byDigest.full()) == byDigest) {
                    return byDigest;
                }
            } catch (const Error&) {
                // it is a tag which happens to begin like that
            }
        }
    }
    try {
        return parseReference(reference.full()) == reference ? std::optional(reference) : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;  // some other file that somebody put there
    }
}

ImageRecord recordOfFiles(const RepositoryPaths& paths, const ImageReference& reference) {
    ImageRecord record{reference, reference.digest, "", "", ""};
    struct stat status {};
    checkErrno(::stat(paths.squashfs(reference).c_str(), &status),
               cat("Failed to examine ", printable(paths.squashfs(reference))));
    record.size = formatSize(static_cast<std::uint64_t>(status.st_size));
    record.created = formatLocalTime(status.st_mtime);
    if (const auto info = parseStoreInfo(readStoredMetadata(paths.metadata(reference)))) {
        record.id = info->id;
        if (!info->registryDigest.empty()) {
            record.registryDigest = info->registryDigest;
        }
    }
    return record;
}

std::string formatLocalTime(std::time_t time) {
    std::tm local{};
    ::localtime_r(&time, &local);
    char text[32];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local)};
}

}  // namespace sarus::image
