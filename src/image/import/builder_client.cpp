#include "image/import/builder_client.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "image/transfer/run_tool.hpp"

namespace sarus::image {

namespace {

/// The builder prints the error on the first line, and hints on further ones.
Error builderError(std::string_view text, std::string_view failure) {
    text = trim(text);
    const auto lineEnd = text.find('\n');
    const auto message = printable(text.substr(0, lineEnd));
    std::vector<std::string> hints;
    if (lineEnd != std::string_view::npos) {
        for (const auto& line : split(text.substr(lineEnd + 1), '\n')) {
            hints.push_back(printable(line));
        }
    }
    return Error(message.empty() || failure.empty() ? cat(failure, message) : cat(failure, ": ", message),
                 join(hints, "\n"));
}

constexpr std::string_view buildFailure = "Failed to make the squashfs image";

Command builderCommand(const BuilderSettings& settings, const std::string& name, const BuildSource& source) {
    Command command{.path = settings.path,
                    .args = {"sarus-image-builder", name, source.descriptor >= 0 ? "-" : source.path},
                    .stdinFd = source.descriptor};
    const auto add = [&](const char* option, const std::string& value) {
        if (!value.empty()) {
            command.args.insert(command.args.end(), {option, value});
        }
    };
    add("--source-format", source.format);
    add("--name", source.name);
    add("--platform", settings.platform.value_or(""));
    return command;
}

}  // namespace

ImageDescription describeImage(const BuilderSettings& settings, const BuildSource& source) {
    const auto result =
        runTool(builderCommand(settings, "describe", source), ToolStreams::captureBoth, "sarus");
    if (!result.status.ok()) {
        throw builderError(result.err, result.err.empty() ? "The image builder failed" : "");
    }
    return parseImageDescription(result.out);
}

BuildRecord describeConversion(const BuilderSettings& settings) {
    Command command{.path = settings.path, .args = {"sarus-image-builder", "describe-conversion"}};
    if (!settings.mksquashfsOptions.empty()) {
        command.args.insert(command.args.end(), {"--mksquashfs-options", settings.mksquashfsOptions});
    }
    const auto result = runTool(command, ToolStreams::captureBoth, "sarus");
    if (!result.status.ok()) {
        throw builderError(result.err, result.err.empty() ? "The image builder failed" : "");
    }
    const auto conversion = parseConversionDescription(result.out);
    return {settings.mksquashfsOptions, conversion.owner, conversion.builder, conversion.compressor};
}

BuildReport buildSquashfs(const BuilderSettings& settings, const BuildSource& source,
                          const std::string& output) {
    // The builder's standard error becomes the message of our own error; its progress reaches us separately.
    auto command = builderCommand(settings, "build", source);
    command.args.insert(command.args.begin() + 3, output);
    UniqueFd progress;
    if (settings.quiet) {
        command.args.insert(command.args.end(), {"--progress", "none"});
    } else {
        progress = UniqueFd(
            checkErrno(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), "Failed to duplicate standard error"));
        command.keepFds.push_back(progress.get());
        command.args.insert(command.args.end(), {"--progress-fd", cat(progress.get())});
    }
    if (settings.mksquashfsOptions.empty()) {
        command.args.insert(command.args.end(), {"--converted-by", "podman-hpc"});
    } else {
        command.args.insert(command.args.end(), {"--mksquashfs-options", settings.mksquashfsOptions});
    }
    if (settings.maxUnpackedSize) {
        command.args.insert(command.args.end(), {"--max-size", cat(*settings.maxUnpackedSize)});
    }
    if (settings.maxEntries) {
        command.args.insert(command.args.end(), {"--max-entries", cat(*settings.maxEntries)});
    }
    if (source.download != nullptr) {
        const int end = source.download->start();
        command.keepFds.push_back(end);
        command.args.insert(command.args.end(), {"--download-fd", cat(end)});
    }
    const auto result = runTool(command, ToolStreams::captureBoth, "sarus");
    // Also after a failure of the builder: wrong bytes, which only the end of the download shows, may be its
    // cause.
    if (source.download != nullptr) {
        source.download->finish();
    }
    if (!result.status.ok()) {
        if (result.status.signal != 0) {
            throw Error(cat(buildFailure, ": the image builder was ended by signal ", result.status.signal));
        }
        throw builderError(result.err, buildFailure);
    }
    return parseBuildReport(result.out);
}

}  // namespace sarus::image
