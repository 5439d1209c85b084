#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/columns.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/images_in_use.hpp"
#include "cli/repository_access.hpp"
#include "cli/starter_call.hpp"
#include "image/store/repository_scan.hpp"
#include "image/store/usage.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::cli {

namespace {

struct Usage {
    std::string key;    ///< in JSON
    std::string title;  ///< in the table
    std::string path;
    std::uint64_t total = 0;
    std::uint64_t bytes = 0;
    std::uint64_t shared = 0;       ///< of files with several names
    std::uint64_t reclaimable = 0;  ///< becomes free if everything that is not in use is removed
    std::vector<image::ImageUsage> images{};
};

/// What becomes free if this name alone is removed.
std::uint64_t ownBytes(const image::ImageUsage& image) {
    return image.links == 1 ? image.bytes : 0;
}

void addImages(Usage& usage, std::vector<image::ImageUsage> images, const std::set<std::string>& inUse) {
    struct File {
        std::uint64_t names = 0;
        std::uint64_t links = 0;
        std::uint64_t bytes = 0;
        bool isUsed = false;
    };
    std::map<std::pair<dev_t, ino_t>, File> files;
    for (const auto& image : images) {
        auto& file = files[image.file];
        ++file.names;
        file.links = image.links;
        file.bytes = image.bytes;
        file.isUsed = file.isUsed || inUse.contains(image.reference.full()) || inUse.contains(image.path);
    }
    for (const auto& [id, file] : files) {
        usage.bytes += file.bytes;
        usage.shared += file.links > 1 ? file.bytes : 0;
        usage.reclaimable += !file.isUsed && file.links <= file.names ? file.bytes : 0;
    }
    usage.total = images.size();
    usage.images = std::move(images);
}

Usage cacheUsage(const image::RepositoryPaths& paths) {
    Usage usage{.key = "cache", .title = "Download cache", .path = paths.cache()};
    for (const auto& blob : image::blobUsage(paths)) {
        ++usage.total;
        usage.bytes += blob.bytes;
    }
    usage.reclaimable = usage.bytes;
    return usage;
}

/// The images for all users; nullopt if there are none for this one.
std::optional<Usage> centralUsage(Context& context, const std::set<std::string>& inUse) {
    const auto& config = context.config();
    if (!config.centralizedRepositoryDir || ::access(config.centralizedRepositoryDir->c_str(), R_OK) != 0) {
        return std::nullopt;
    }
    try {
        image::Repository repository(*config.centralizedRepositoryDir, image::RepositoryAccess::read,
                                     {config.lockTimeoutMs, config.lockWarningMs});
        const auto& paths = repository.paths();
        Usage usage{.key = "centralRepository", .title = "Central images", .path = paths.root};
        addImages(usage, image::imageUsage(paths, repository.list()), inUse);
        if (::access(paths.images().c_str(), W_OK) != 0) {
            usage.reclaimable = 0;
        }
        return usage;
    } catch (const Error& error) {
        logInfo("ImageStore", error.what());  // the caller may not read it
        return std::nullopt;
    }
}

std::string formatTable(const std::vector<Usage>& all) {
    std::vector<std::vector<std::string>> rows{{"TYPE", "TOTAL", "SIZE", "SHARED", "RECLAIMABLE"}};
    for (const auto& usage : all) {
        rows.push_back({usage.title, cat(usage.total), formatSize(usage.bytes), formatSize(usage.shared),
                        formatSize(usage.reclaimable)});
    }
    constexpr std::size_t gap = 3;
    return formatColumns(std::move(rows), gap, 0, terminalWidth(STDOUT_FILENO));
}

std::string formatJson(const std::string& repository, const std::vector<Usage>& all) {
    oci::JsonWriter out;
    out.beginObject().member("repository", repository);
    for (const auto& usage : all) {
        out.key(usage.key).beginObject();
        out.member("path", usage.path);
        out.member("total", usage.total);
        out.member("bytes", usage.bytes);
        out.member("shared", usage.shared);
        out.member("reclaimable", usage.reclaimable);
        if (!usage.images.empty()) {
            out.key("list").beginArray();
            for (const auto& image : usage.images) {
                out.beginObject();
                out.member("reference", image.reference.full());
                out.member("bytes", image.bytes);
                out.member("names", image.links);
                out.member("reclaimable", ownBytes(image));
                out.member("lastUse", formatUtcTime(image.lastUse));
                out.endObject();
            }
            out.endArray();
        }
        out.endObject();
    }
    return out.endObject().text();
}

std::set<std::string> imagesKnownInUse(Context& context) {
    try {
        return imagesInUse(context);
    } catch (const std::exception& error) {
        logInfo("CLI", error.what());  // sizes need no working starter
        return {};
    }
}

int runDf(Context& context, const Arguments& arguments) {
    auto repository = openRepository(context, arguments, image::RepositoryAccess::read);
    const auto& paths = repository.paths();
    const auto inUse = imagesKnownInUse(context);
    std::vector<Usage> all{{.key = "images", .title = "Images", .path = paths.images()}};
    addImages(all.back(), image::imageUsage(paths, repository.list()), inUse);
    all.push_back(cacheUsage(paths));
    const auto& tempDir = context.config().tempDir;
    const auto unpacked = image::unpackedUsage(tempDir);
    all.push_back({.key = "unpackedImages",
                   .title = "Unpacked images",
                   .path = tempDir,
                   .total = unpacked.copies,
                   .bytes = unpacked.bytes,
                   .reclaimable = unpacked.bytes});
    if (auto central = centralUsage(context, inUse)) {
        all.push_back(std::move(*central));
    }
    if (arguments.has("json")) {
        printLine(formatJson(paths.root, all));
    } else {
        writeAll(STDOUT_FILENO, formatTable(all), "standard output");
    }
    return 0;
}

}  // namespace

Subcommand dfCommand() {
    return {.name = "df",
            .usage = "sarus df [OPTIONS]",
            .description = "Show the disk space of images and downloads",
            .note =
                "Note: SHARED is the part of SIZE in files that several images share. RECLAIMABLE becomes\n"
                "      free when everything that no container of this node uses is removed.",
            .options = {jsonOption()},
            .usesRepository = true,
            .aliases = {"system df"},
            .run = runDf};
}

}  // namespace sarus::cli
