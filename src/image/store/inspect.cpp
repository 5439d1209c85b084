#include <sys/stat.h>

#include <algorithm>
#include <ctime>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/store/listing.hpp"
#include "image/store/repository_scan.hpp"
#include "image/store/stored_image.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::image {

namespace {

std::optional<std::uint64_t> sizeOf(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? std::optional(static_cast<std::uint64_t>(status.st_size))
                                              : std::nullopt;
}

/// When it was stored, from the file itself: the index holds a local time without a zone.
std::string timeOf(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? formatUtcTime(status.st_mtime) : std::string();
}

void textOrNull(oci::JsonWriter& out, std::string_view key, const std::string& text) {
    out.key(key);
    if (text.empty()) {
        out.raw("null");
    } else {
        out.value(text);
    }
}

/// The members common to lists and inspections.
void writeRecord(oci::JsonWriter& out, const ImageRecord& image, const std::string& path,
                 std::optional<std::uint64_t> size) {
    const auto& reference = image.reference;
    out.member("reference", reference.full());
    out.member("server", reference.server);
    out.member("repository", reference.repository());
    textOrNull(out, "tag", reference.tag);
    textOrNull(out, "digest", image.registryDigest);
    textOrNull(out, "id", image.id);
    textOrNull(out, "platform", image.platform);
    textOrNull(out, "created", timeOf(path));
    out.key("size").raw(size ? cat(*size) : "null");
    out.member("path", path);
}

void addLine(std::string& text, std::string_view name, std::string_view value) {
    constexpr std::size_t width = 16;
    auto title = cat(name, ":");
    title.resize(std::max(width, title.size() + 1), ' ');
    text += cat(title, value.empty() ? "-" : printable(value), '\n');
}

/// Quotes words that contain blanks, to tell them apart.
std::string commandLine(const std::vector<std::string>& words) {
    std::string line;
    for (const auto& word : words) {
        const bool quote = word.empty() || word.find_first_of(" \t\"'") != std::string::npos;
        line += cat(line.empty() ? "" : " ", quote ? cat('\'', word, '\'') : word);
    }
    return line;
}

}  // namespace

std::string formatImageJson(const RepositoryPaths& paths, const std::vector<ImageRecord>& images) {
    oci::JsonWriter out;
    out.beginArray();
    for (const auto& image : images) {
        const auto path = paths.squashfs(image.reference);
        out.beginObject();
        writeRecord(out, image, path, sizeOf(path));
        out.endObject();
    }
    out.endArray();
    return cat(out.text(), '\n');
}

std::optional<ImageDetails> inspectImage(const RepositoryPaths& paths, const ImageReference& reference) {
    const auto stored = openStoredImage(paths, reference);
    if (!stored) {
        return std::nullopt;
    }
    const auto path = paths.squashfs(reference);
    ImageDetails details{.record = recordOf(reference, *stored),
                         .path = path,
                         .size = stored->size,
                         .squashfsDigest = {},
                         .build = {},
                         .metadata = {}};
    if (stored->info) {
        details.squashfsDigest = stored->info->squashfsDigest;
        details.build = stored->info->build;
    }
    try {
        details.metadata = oci::parseImageMetadata(stored->metadata);
    } catch (Error& error) {
        throw error.addContext(cat("Failed to read \"", printable(paths.metadata(reference)), "\""));
    }
    return details;
}

std::string formatImageDetails(const ImageDetails& image) {
    std::string text;
    addLine(text, "Image", image.record.reference.full());
    addLine(text, "Digest", image.record.registryDigest);
    addLine(text, "Image ID", image.record.id);
    addLine(text, "Platform", image.record.platform);
    addLine(text, "Stored", image.record.created);
    addLine(text, "Size", image.record.size);
    addLine(text, "File", image.path);
    addLine(text, "File digest", image.squashfsDigest);
    if (image.build) {
        addLine(text, "Built by", cat("image builder ", image.build->builder, ", ", image.build->compressor));
        addLine(text, "Built with", image.build->options.empty() ? "default options" : image.build->options);
        addLine(text, "Owner", image.build->owner);
    }
    addLine(text, "Entrypoint", commandLine(image.metadata.entrypoint));
    addLine(text, "Command", commandLine(image.metadata.cmd));
    addLine(text, "Directory", image.metadata.workingDir);
    for (const auto& variable : image.metadata.env) {
        addLine(text, "Environment", variable);
    }
    for (const auto& [key, value] : image.metadata.labels) {
        addLine(text, "Label", cat(key, "=", value));
    }
    return text;
}

std::string formatImageDetailsJson(const ImageDetails& image) {
    oci::JsonWriter out;
    out.beginObject();
    out.member("kind", "image");
    writeRecord(out, image.record, image.path, image.size);
    textOrNull(out, "squashfsDigest", image.squashfsDigest);
    out.key("build");
    if (image.build) {
        out.beginObject();
        out.member("options", image.build->options);
        out.member("owner", image.build->owner);
        out.member("builder", image.build->builder);
        out.member("compressor", image.build->compressor);
        out.endObject();
    } else {
        out.raw("null");
    }
    out.member("entrypoint", image.metadata.entrypoint);
    out.member("cmd", image.metadata.cmd);
    out.member("workingDir", image.metadata.workingDir);
    out.member("env", image.metadata.env);
    out.key("labels").beginObject();
    for (const auto& [key, value] : image.metadata.labels) {
        out.member(key, value);
    }
    out.endObject().endObject();
    return cat(out.text(), '\n');
}

}  // namespace sarus::image
