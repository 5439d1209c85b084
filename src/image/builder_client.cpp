#include "image/builder_client.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/fsverity.hpp"
#include "base/text.hpp"
#include "image/run_tool.hpp"
#include "oci/image_manifest.hpp"

namespace sarus::image {

namespace {

/// The builder says in one line what went wrong, and in further ones what to do.
Error builderError(std::string_view text) {
    text = trim(text);
    const auto lineEnd = text.find('\n');
    const auto message = printable(text.substr(0, lineEnd));
    std::vector<std::string> hints;
    if (lineEnd != std::string_view::npos) {
        for (const auto& line : split(text.substr(lineEnd + 1), '\n')) {
            hints.push_back(printable(line));
        }
    }
    return Error(message.empty() ? "Failed to make the squashfs image" : cat("Failed to make the squashfs image: ", message),
                 join(hints, "\n"));
}

}  // namespace

BuildResult parseBuildResult(std::string_view report) {
    const auto json = nlohmann::json::parse(report, nullptr, false);
    const auto digest = [&](const char* key, auto isValid) {
        const bool valid = json.is_object() && json.contains(key) && json[key].is_string();
        auto value = valid ? json[key].get<std::string>() : std::string();
        if (!isValid(value)) {
            throw Error(cat("The image builder reported no valid ", key));
        }
        return value;
    };
    const auto text = [&](const char* key) {
        return digest(key, [](const std::string& value) { return !value.empty() && printable(value) == value; });
    };
    BuildResult result{digest("manifestDigest", oci::isDigest),
                       digest("configDigest", oci::isDigest),
                       digest("squashfsDigest", fsverity::isDigest),
                       0,
                       text("owner"),
                       text("builder"),
                       text("compressor")};
    if (!json.contains("squashfsSize") || !json["squashfsSize"].is_number_unsigned()) {
        throw Error("The image builder reported no valid squashfsSize");
    }
    result.squashfsSize = json["squashfsSize"].get<std::uint64_t>();
    return result;
}

BuildResult buildSquashfs(const BuilderSettings& settings, const std::string& layout, const std::string& output) {
    // What the builder says on its standard error is the message of our own error; its progress has another way to ours.
    Command command{.path = settings.path, .args = {"sarus-image-builder", "build", layout, output}};
    UniqueFd progress;
    if (settings.quiet) {
        command.args.insert(command.args.end(), {"--progress", "none"});
    } else {
        progress = UniqueFd(checkErrno(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), "Failed to duplicate standard error"));
        command.keepFds.push_back(progress.get());
        command.args.insert(command.args.end(), {"--progress-fd", cat(progress.get())});
    }
    if (!settings.mksquashfsOptions.empty()) {
        command.args.insert(command.args.end(), {"--mksquashfs-options", settings.mksquashfsOptions});
    }
    if (settings.maxUnpackedSize) {
        command.args.insert(command.args.end(), {"--max-size", cat(*settings.maxUnpackedSize)});
    }
    if (settings.maxEntries) {
        command.args.insert(command.args.end(), {"--max-entries", cat(*settings.maxEntries)});
    }
    if (settings.platform) {
        command.args.insert(command.args.end(), {"--platform", *settings.platform});
    }
    const auto result = runTool(command, ToolStreams::captureBoth, "sarus");
    if (!result.status.ok()) {
        if (result.status.signal != 0) {
            throw Error(cat("Failed to make the squashfs image: the image builder was ended by signal ", result.status.signal));
        }
        throw builderError(result.err);
    }
    return parseBuildResult(result.out);
}

}  // namespace sarus::image
