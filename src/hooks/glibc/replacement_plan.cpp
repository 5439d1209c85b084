#include "hooks/glibc/replacement_plan.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks::glibc {

namespace {

std::optional<Version> parseVersion(std::string_view text) {
    Version version;
    for (const auto& part : split(text, '.')) {
        const auto number = parseNumber(part);
        if (!number || *number > UINT32_MAX) {
            return std::nullopt;
        }
        version.numbers.push_back(static_cast<std::uint32_t>(*number));
    }
    return version;
}

const HostLibrary& findCLibrary(const std::vector<HostLibrary>& libraries) {
    for (const auto& library : libraries) {
        if (isCLibraryName(library.fileName())) {
            return library;
        }
    }
    throw Error("GLIBC_LIBS names no C library (libc.so.6)",
                "Add it to the environment in the hook's JSON file");
}

std::vector<std::string> pathsOf(const std::vector<ContainerFile>& files, const std::string& name) {
    std::vector<std::string> paths;
    for (const auto& file : files) {
        if (file.name == name) {
            paths.push_back(file.path);
        }
    }
    return paths;
}

/// The container's parts of glibc that would remain, but would not work with another release's libc.
std::string listRemainingParts(const ReplacementRequest& request, const std::vector<ContainerFile>& files) {
    std::vector<std::string> names;
    for (const auto part : partsOfGlibc()) {
        const auto isThis = [&](const HostLibrary& library) { return library.soname() == part; };
        const auto isPresent = [&](const ContainerFile& file) { return file.name == part; };
        if (std::any_of(files.begin(), files.end(), isPresent) &&
            std::none_of(request.hostLibraries.begin(), request.hostLibraries.end(), isThis)) {
            names.emplace_back(part);
        }
    }
    return join(names, ", ");
}

}  // namespace

std::string Version::text() const {
    std::string result;
    for (const auto number : numbers) {
        result += cat(result.empty() ? "" : ".", number);
    }
    return result;
}

std::optional<Version> versionOf(const ElfFile& libc) {
    constexpr std::string_view prefix = "GLIBC_";
    std::optional<Version> newest;
    for (const auto& name : libc.versionDefinitions) {
        if (!name.starts_with(prefix)) {
            continue;
        }
        // GLIBC_PRIVATE and GLIBC_ABI_... are not numbers.
        const auto version = parseVersion(std::string_view(name).substr(prefix.size()));
        if (version && (!newest || *newest < *version)) {
            newest = version;
        }
    }
    return newest;
}

std::optional<Version> releaseIn(std::string_view libc) {
    constexpr std::string_view banner = "GNU C Library";
    constexpr std::string_view before = "release version ";
    constexpr std::size_t longestBanner = 200;
    for (auto at = libc.find(banner); at != std::string_view::npos; at = libc.find(banner, at + 1)) {
        const auto line = libc.substr(at, longestBanner);
        const auto start = line.find(before);
        if (start == std::string_view::npos || line.find('\n') < start || line.find('\0') < start) {
            continue;
        }
        const auto rest = line.substr(start + before.size());
        const auto end = rest.find_first_not_of("0123456789.");
        if (end == std::string_view::npos) {
            continue;  // cut off
        }
        auto number = rest.substr(0, end);
        while (number.ends_with('.')) {
            number.remove_suffix(1);
        }
        if (auto release = parseVersion(number)) {
            return release;
        }
    }
    return std::nullopt;
}

bool isCLibraryName(std::string_view fileName) noexcept {
    constexpr std::string_view current = "libc.so.";
    constexpr std::string_view old = "libc-";
    if (fileName.starts_with(current)) {
        return parseNumber(fileName.substr(current.size())).has_value();
    }
    return fileName.starts_with(old) && fileName.ends_with(".so") && fileName.size() > old.size() + 3 &&
           fileName[old.size()] >= '0' && fileName[old.size()] <= '9';
}

const std::vector<std::string_view>& partsOfGlibc() {
    static const std::vector<std::string_view> names{
        "libc.so.6",
        "libpthread.so.0",
        "libm.so.6",
        "libdl.so.2",
        "librt.so.1",
        "libresolv.so.2",
        "libutil.so.1",
        "libanl.so.1",
        "libmvec.so.1",
        "libnss_files.so.2",
        "libnss_dns.so.2",
        "libnss_compat.so.2",
        "libnss_hesiod.so.2",
        "libthread_db.so.1",
        "libBrokenLocale.so.1",
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
        "ld64.so.2",
        "ld64.so.1",
        "ld-linux-riscv64-lp64d.so.1",
        "ld-linux-loongarch-lp64d.so.1",
        "ld-linux-armhf.so.3",
        "ld-linux.so.2",
    };
    return names;
}

ReplacementPlan planReplacement(const ReplacementRequest& request) {
    const auto& host = findCLibrary(request.hostLibraries);
    const auto hostVersion = versionOf(host.elf);
    if (!hostVersion) {
        throw Error(cat("The host's C library ", printable(host.path),
                        " is not a glibc: it defines no version GLIBC_2.x"));
    }
    ReplacementPlan plan;
    if (!request.containerCLibrary) {
        plan.reason = request.isMusl ? "the container's C library is musl"
                                     : "the container has no glibc for this machine";
        return plan;
    }
    const auto containerVersion = versionOf(*request.containerCLibrary);
    if (!containerVersion) {
        plan.reason = "the container's C library is not a glibc";
        return plan;
    }
    const bool areReleasesKnown = request.hostRelease && request.containerRelease;
    const Version& ours = areReleasesKnown ? *request.hostRelease : *hostVersion;
    const Version& theirs = areReleasesKnown ? *request.containerRelease : *containerVersion;
    if (theirs >= ours) {
        plan.reason =
            cat("the container's glibc ", theirs.text(), " is not older than the host's ", ours.text());
        return plan;
    }
    const auto containerSoname = request.containerCLibrary->soname.value_or("");
    if (host.soname() != containerSoname) {
        throw Error(cat("The host's glibc (", printable(host.soname()),
                        ") is not ABI compatible with the container's (", printable(containerSoname),
                        "): their SONAMEs differ"));
    }
    plan.announcement = cat("Detected glibc ", theirs.text(), " (< ", ours.text(),
                            ") in the container. Replacing it with glibc ", ours.text(),
                            " from the host. Consider an image with a newer glibc.");
    const auto files = request.findFiles();
    std::vector<std::string> added;
    for (const auto& library : request.hostLibraries) {
        Replacement replacement{library.path, pathsOf(files, library.soname()), false};
        if (replacement.destinations.empty()) {
            replacement.isAdded = true;
            replacement.destinations.push_back(cat(request.directoryOfAdded, '/', library.fileName()));
            added.push_back(library.soname());
        }
        plan.replacements.push_back(std::move(replacement));
    }
    if (!added.empty()) {
        const auto others = added.size() - 1;
        plan.warnings.push_back(cat("The container has no ", printable(added.front()),
                                    others == 0
                                        ? ": the host's is"
                                        : cat(" and ", others, " other librar", others == 1 ? "y" : "ies",
                                              " of GLIBC_LIBS: the host's are"),
                                    " added in ", printable(request.directoryOfAdded)));
    }
    if (const auto remaining = listRemainingParts(request, files); !remaining.empty()) {
        plan.warnings.push_back(cat("GLIBC_LIBS lacks parts of glibc that the container has: ", remaining,
                                    ". Programs that use them will fail with the host's C library"));
    }
    return plan;
}

}  // namespace sarus::hooks::glibc
