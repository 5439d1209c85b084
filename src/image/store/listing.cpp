#include "image/store/listing.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/columns.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/fsverity.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "image/store/file_digest.hpp"
#include "image/store/repository_scan.hpp"
#include "image/store/stored_image.hpp"
#include "oci/image/platform.hpp"

namespace sarus::image {

namespace {

constexpr std::size_t narrowestColumn = 10;
constexpr std::size_t idLength = 12;
constexpr std::size_t gap = 3;

struct Column {
    std::string title;
    std::vector<std::string> values;
    std::size_t width = 0;  ///< 0: as wide as the longest value
};

std::string shownRepository(const ImageReference& reference) {
    if (reference.server != "docker.io") {
        return reference.repository();
    }
    if (reference.imageNamespace == "library") {
        return reference.image;
    }
    return cat(reference.imageNamespace, reference.imageNamespace.empty() ? "" : "/", reference.image);
}

std::string orNone(const std::string& value) {
    return value.empty() ? "<none>" : value;
}

bool isForOtherMachines(const ImageRecord& image) {
    const auto here = oci::hostPlatform();
    return !image.platform.empty() &&
           !cat(image.platform, '/').starts_with(cat(here.os, '/', here.architecture, '/'));
}

void appendCell(std::string& line, const std::string& value, std::size_t width, bool last) {
    line += value;
    if (!last) {
        line.append(width - std::min(width, value.size()) + gap, ' ');
    }
}

}  // namespace

std::string formatImageTable(const std::vector<ImageRecord>& images, bool withDigests, Ids ids) {
    std::vector<Column> columns;
    const auto add = [&](const char* title, std::size_t width, auto value) {
        Column column{title, {}, width};
        for (const auto& image : images) {
            column.values.push_back(value(image));
        }
        if (width == 0) {
            column.width = narrowestColumn;
            for (const auto& text : column.values) {
                column.width = std::max(column.width, text.size());
            }
        }
        columns.push_back(std::move(column));
    };
    add("REPOSITORY", 0, [](const ImageRecord& image) { return shownRepository(image.reference); });
    add("TAG", 0, [](const ImageRecord& image) { return orNone(image.reference.tag); });
    if (withDigests) {
        add("DIGEST", 0, [](const ImageRecord& image) { return orNone(image.registryDigest); });
    }
    const auto length = ids == Ids::whole ? std::string::npos : idLength;
    add("IMAGE ID", ids == Ids::whole ? 0 : idLength,
        [&](const ImageRecord& image) { return orNone(image.id).substr(0, length); });
    add("CREATED", 0, [](const ImageRecord& image) { return image.created; });
    add("SIZE", 0, [](const ImageRecord& image) { return image.size; });
    add("SERVER", 0, [](const ImageRecord& image) { return image.reference.server; });

    std::string table;
    for (std::size_t row = 0; row <= images.size(); ++row) {
        for (const auto& column : columns) {
            appendCell(table, row == 0 ? column.title : printable(column.values[row - 1]), column.width,
                       &column == &columns.back());
        }
        table += '\n';
    }
    return table;
}

namespace {

struct FileFacts {
    std::time_t time = 0;
    std::uint64_t size = 0;
};

FileFacts factsOf(const RepositoryPaths& paths, const ImageRecord& image) {
    struct stat file {};
    struct stat metadata {};
    if (::stat(paths.squashfs(image.reference).c_str(), &file) != 0) {
        return {};
    }
    // Names can share a squashfs file, but each has metadata of its own.
    const bool known = ::stat(paths.metadata(image.reference).c_str(), &metadata) == 0;
    return {known ? metadata.st_mtime : file.st_mtime, static_cast<std::uint64_t>(file.st_size)};
}

}  // namespace

void refreshTimes(const RepositoryPaths& paths, std::vector<ImageRecord>& images) {
    for (auto& image : images) {
        if (const auto facts = factsOf(paths, image); facts.time != 0) {
            image.created = formatLocalTime(facts.time);
        }
    }
}

void sortImages(const RepositoryPaths& paths, std::vector<ImageRecord>& images, std::string_view key) {
    if (key == "name") {
        std::stable_sort(images.begin(), images.end(), [](const auto& a, const auto& b) {
            return shownRepository(a.reference) < shownRepository(b.reference);
        });
        return;
    }
    if (key != "created" && key != "size") {
        throw Error(cat("Incorrect value provided for --sort option: '", printable(key),
                        "'. Supported values: 'name', 'created', 'size'."));
    }
    std::stable_sort(images.begin(), images.end(), [&](const auto& a, const auto& b) {
        const auto first = factsOf(paths, a);
        const auto second = factsOf(paths, b);
        return key == "size" ? first.size > second.size : first.time > second.time;
    });
}

std::string formatShortImageTable(const RepositoryPaths& paths, const std::vector<ImageRecord>& images,
                                  std::size_t width) {
    const auto now = std::time(nullptr);
    std::vector<std::vector<std::string>> rows{{"REPOSITORY", "TAG", "IMAGE ID", "AGE", "SIZE"}};
    for (const auto& image : images) {
        const auto facts = factsOf(paths, image);
        rows.push_back({printable(shownRepository(image.reference)), printable(orNone(image.reference.tag)),
                        orNone(image.id).substr(0, idLength), formatAge(now - facts.time), image.size});
    }
    if (std::any_of(images.begin(), images.end(), isForOtherMachines)) {
        rows.front().emplace_back("PLATFORM");
        for (std::size_t row = 0; row < images.size(); ++row) {
            rows[row + 1].push_back(printable(orNone(images[row].platform)));
        }
    }
    constexpr std::size_t narrowGap = 2;
    return formatColumns(std::move(rows), narrowGap, 0, width);
}

Integrity verifyImage(const RepositoryPaths& paths, const ImageReference& reference) {
    const auto stored = openStoredImage(paths, reference);
    if (!stored) {
        throw Error("one of its files is missing");
    }
    const auto& info = stored->info;
    // As earlier versions recorded it.
    const bool isPlain = info && info->squashfsDigest.starts_with("sha256:");
    if (!isPlain && !(info && fsverity::isDigest(info->squashfsDigest))) {
        return Integrity::unknown;
    }
    const auto path = paths.squashfs(reference);
    const auto digest = isPlain ? cat("sha256:", sha256HexOfFile(stored->file.get(), printable(path)))
                                : fsverityDigestOfFile(stored->file.get(), printable(path));
    return digest == info->squashfsDigest ? Integrity::intact : Integrity::damaged;
}

VerificationReport verifyImages(const RepositoryPaths& paths, const std::vector<ImageRecord>& images) {
    VerificationReport report;
    for (const auto& image : images) {
        std::string finding;
        try {
            const auto integrity = verifyImage(paths, image.reference);
            finding = integrity == Integrity::intact ? "intact"
                      : integrity == Integrity::damaged
                          ? "DAMAGED"
                          : "unknown (no digest was recorded when it was stored)";
            report.allIntact = report.allIntact && integrity != Integrity::damaged;
        } catch (const Error& error) {
            finding = cat("DAMAGED (", error.what(), ')');
            report.allIntact = false;
        }
        report.text += cat(image.reference.full(), ": ", finding, '\n');
    }
    return report;
}

}  // namespace sarus::image
