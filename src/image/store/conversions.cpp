#include "image/store/conversions.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <exception>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

/// The directory of the notes; "" if the caller has no home of its own. Root with the home of a user, as sudo
/// may leave it, neither reads nor writes there.
std::string notesDirectory() {
    const auto home = hostVariable("HOME").value_or("");
    struct stat status {};
    if (!home.starts_with('/') || ::stat(home.c_str(), &status) != 0 || status.st_uid != ::geteuid()) {
        return {};
    }
    return cat(home, "/.cache/sarus/converted");
}

std::string noteName(Converter by, const std::string& layersId) {
    return cat('/', layersId, by == Converter::sarus ? ".sarus" : ".podman-hpc");
}

}  // namespace

Converter parseConverter(std::string_view name) {
    if (name != "sarus" && name != "podman-hpc") {
        throw Error(cat("Unknown converter '", printable(name), '\''), "It must be sarus or podman-hpc");
    }
    return name == "sarus" ? Converter::sarus : Converter::podmanHpc;
}

std::string layersIdOf(const std::vector<std::string>& diffIds) {
    const bool unknown =
        std::any_of(diffIds.begin(), diffIds.end(), [](const std::string& digest) { return digest.empty(); });
    return unknown || diffIds.empty() ? std::string() : sha256Hex(join(diffIds, "\n"));
}

void noteConversion(Converter by, const std::string& layersId, const std::string& squashfs) noexcept {
    try {
        const auto directory = notesDirectory();
        if (directory.empty() || layersId.empty() || !squashfs.starts_with('/')) {
            return;
        }
        createDirectories(directory, 0700);
        const auto note = directory + noteName(by, layersId);
        ::unlink(note.c_str());
        if (::symlink(squashfs.c_str(), note.c_str()) != 0 && errno != EEXIST) {
            throwErrno(cat("Failed to create ", printable(note)));
        }
    } catch (const std::exception& error) {
        logInfo("ImageStore", error.what());
    }
}

std::optional<std::string> notedConversion(Converter by, const std::string& layersId) {
    const auto directory = notesDirectory();
    if (directory.empty() || layersId.empty()) {
        return std::nullopt;
    }
    std::string path(PATH_MAX, '\0');
    const auto size = ::readlink((directory + noteName(by, layersId)).c_str(), path.data(), path.size());
    path.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return path.starts_with('/') ? std::optional(path) : std::nullopt;
}

}  // namespace sarus::image
