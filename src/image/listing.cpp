#include "image/listing.hpp"

#include <fcntl.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/fsverity.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "image/file_digest.hpp"

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

void appendCell(std::string& line, const std::string& value, std::size_t width, bool last) {
    line += value;
    if (!last) {
        line.append(width - std::min(width, value.size()) + gap, ' ');
    }
}

}  // namespace

std::string formatImageTable(const std::vector<ImageRecord>& images, bool withDigests) {
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
    add("IMAGE ID", idLength, [](const ImageRecord& image) { return orNone(image.id).substr(0, idLength); });
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

Integrity verifyImage(const RepositoryPaths& paths, const ImageReference& reference) {
    const auto info = parseStoreInfo(readStoredMetadata(paths.metadata(reference)));
    const bool isPlain = info && info->squashfsDigest.starts_with("sha256:");  // as earlier versions recorded it
    if (!isPlain && !(info && fsverity::isDigest(info->squashfsDigest))) {
        return Integrity::unknown;
    }
    const auto path = paths.squashfs(reference);
    const auto file = openFile(path, O_RDONLY);
    const auto digest = isPlain ? cat("sha256:", sha256HexOfFile(file.get(), printable(path)))
                                : fsverityDigestOfFile(file.get(), printable(path));
    return digest == info->squashfsDigest ? Integrity::intact : Integrity::damaged;
}

VerificationReport verifyImages(const RepositoryPaths& paths, const std::vector<ImageRecord>& images) {
    VerificationReport report;
    for (const auto& image : images) {
        std::string finding;
        try {
            const auto integrity = verifyImage(paths, image.reference);
            finding = integrity == Integrity::intact    ? "intact"
                      : integrity == Integrity::damaged ? "DAMAGED"
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
