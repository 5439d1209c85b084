#include "hooks/kit/soname_version.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/path_in_root.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

namespace {

/// Whether one version is a prefix of the other.
bool agree(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
    const auto common = std::min(a.size(), b.size());
    return std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(common), b.begin());
}

/// As a path like `link`, the link's own; nullopt without a target.
std::optional<std::string> absoluteTarget(const std::string& link, const char* target, ssize_t length) {
    if (length <= 0) {
        return std::nullopt;
    }
    const std::string_view text(target, static_cast<std::size_t>(length));
    return text.front() == '/' ? std::string(text) : cat(link.substr(0, link.rfind('/') + 1), text);
}

/// `targetOf`: the target of the link in the last component of a path; nullopt if it is not a link.
template <typename TargetOf>
std::optional<LibraryName> resolve(std::string_view path, TargetOf targetOf) {
    auto best = parseLibraryName(path);
    if (!best) {
        return std::nullopt;
    }
    constexpr int maxLinks = 40;
    std::string current(path);
    for (int links = 0; links < maxLinks; ++links) {
        auto target = targetOf(current);
        if (!target) {
            break;
        }
        const auto name = parseLibraryName(*target);
        if (name && name->linkerName == best->linkerName && agree(name->version, best->version) &&
            name->version.size() > best->version.size()) {
            best = name;
        }
        current = std::move(*target);
    }
    return best;
}

}  // namespace

std::optional<std::uint32_t> LibraryName::majorNumber() const {
    return version.empty() ? std::nullopt : std::optional(version[0]);
}

std::optional<std::uint32_t> LibraryName::minorNumber() const {
    return version.size() < 2 ? std::nullopt : std::optional(version[1]);
}

std::string LibraryName::text() const {
    return linkNames().back();
}

std::vector<std::string> LibraryName::linkNames() const {
    std::vector<std::string> names{linkerName};
    for (const auto number : version) {
        names.push_back(cat(names.back(), '.', number));
    }
    return names;
}

std::optional<LibraryName> parseLibraryName(std::string_view path) {
    constexpr std::string_view suffix = ".so";
    const auto name = path.substr(path.rfind('/') + 1);
    // "libx.so.1" and "libx.so.so": the last ".so" at the end or before a full stop counts.
    auto position = name.rfind(suffix);
    while (position != std::string_view::npos && position > 0) {
        const auto rest = name.substr(position + suffix.size());
        if (rest.empty() || rest.front() == '.') {
            LibraryName result{std::string(name.substr(0, position + suffix.size())), {}};
            if (rest.empty()) {
                return result;
            }
            for (const auto& part : split(rest.substr(1), '.')) {
                const auto number = parseNumber(part);
                if (!number || *number > UINT32_MAX) {
                    return std::nullopt;
                }
                result.version.push_back(static_cast<std::uint32_t>(*number));
            }
            return result;
        }
        position = name.rfind(suffix, position - 1);
    }
    return std::nullopt;
}

std::optional<LibraryName> resolveLibraryName(int root, std::string_view path) {
    return resolve(path, [root](const std::string& link) {
        const auto place = tryOpenInRoot(root, link, LastLink::keep);
        char target[PATH_MAX];
        return absoluteTarget(link, target,
                              place ? ::readlinkat(place.get(), "", target, sizeof target) : -1);
    });
}

std::optional<LibraryName> resolveHostLibraryName(std::string_view path) {
    return resolve(path, [](const std::string& link) {
        char target[PATH_MAX];
        return absoluteTarget(link, target, ::readlink(link.c_str(), target, sizeof target));
    });
}

AbiMatch compareAbi(const LibraryName& host, const LibraryName& container, AbiPolicy policy) {
    if (host.linkerName != container.linkerName || !host.majorNumber() ||
        host.majorNumber() != container.majorNumber()) {
        return AbiMatch::incompatible;
    }
    const auto minor = host.minorNumber().value_or(0);
    const auto wanted = container.minorNumber().value_or(0);
    if (policy == AbiPolicy::strict) {
        return minor == wanted ? AbiMatch::compatible : AbiMatch::incompatible;
    }
    return minor < wanted ? AbiMatch::hostMinorOlder : AbiMatch::compatible;
}

}  // namespace sarus::hooks
