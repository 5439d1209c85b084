#include "image/store/repository_scan.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <span>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

constexpr std::size_t maxDepth = 64;

struct Entry {
    std::string name;
    bool directory = false;
};

std::vector<Entry> listDirectory(const std::string& path) {
    Directory directory(path, Missing::isEmpty);
    std::vector<Entry> entries;
    while (const char* name = directory.next()) {
        entries.push_back({name, directory.isAtDirectory()});
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

void walk(const RepositoryPaths& paths, const std::string& relative, std::size_t depth,
          RepositoryScan& scan) {
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
    ImageReference reference{components[0], join(middle, "/"), components[count - 2], components[count - 1],
                             ""};
    if (const auto dash = reference.tag.find_last_of('-'); dash != std::string::npos) {
        auto digest = reference.tag;
        digest[dash] = ':';
        if (digest.starts_with("sha")) {
            try {
                const ImageReference byDigest{reference.server, reference.imageNamespace, reference.image, "",
                                              digest};
                if (parseReference(byDigest.full()) == byDigest) {
                    return byDigest;
                }
            } catch (const Error&) {
                // A tag that happens to begin like a digest.
            }
        }
    }
    try {
        return parseReference(reference.full()) == reference ? std::optional(reference) : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;  // a foreign file
    }
}

ImageRecord recordOf(const ImageReference& reference, const StoredImage& image) {
    ImageRecord record{reference, reference.digest, "", formatSize(image.size), ""};
    struct stat status {};
    if (::fstat(image.file.get(), &status) == 0) {
        record.created = formatLocalTime(status.st_mtime);
    }
    if (image.info) {
        update(record, *image.info);
    }
    return record;
}

ImageRecord recordOfFiles(const RepositoryPaths& paths, const ImageReference& reference) {
    try {
        if (const auto image = openStoredImage(paths, reference)) {
            return recordOf(reference, *image);
        }
    } catch (const Error& error) {
        logInfo("ImageStore",
                error.what());  // one damaged image must not hide the others; its users get the error
    }
    return {reference, reference.digest, "", "", ""};
}

std::string formatLocalTime(std::time_t time) {
    std::tm local{};
    ::localtime_r(&time, &local);
    char text[32];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local)};
}

}  // namespace sarus::image
