#include "image/types/reference.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

// The locale must not determine what a letter is, so this avoids <cctype>.
bool isLower(char c) {
    return c >= 'a' && c <= 'z';
}
bool isUpper(char c) {
    return c >= 'A' && c <= 'Z';
}
bool isDigit(char c) {
    return c >= '0' && c <= '9';
}
bool isAlphanumeric(char c) {
    return isLower(c) || isUpper(c) || isDigit(c);
}
bool isHex(char c) {
    return isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

template <typename Predicate>
bool nonEmptyAllOf(std::string_view text, Predicate predicate) {
    return !text.empty() && std::all_of(text.begin(), text.end(), predicate);
}

bool isDomainLabel(std::string_view label) {
    return nonEmptyAllOf(label, [](char c) { return isAlphanumeric(c) || c == '-'; }) &&
           label.front() != '-' && label.back() != '-';
}

bool isDomain(std::string_view text) {
    const auto hostEnd = text.starts_with('[') ? text.find(']') : std::string_view::npos;
    std::string_view port;
    bool validHost = false;
    if (hostEnd != std::string_view::npos) {
        validHost = nonEmptyAllOf(text.substr(1, hostEnd - 1), [](char c) { return isHex(c) || c == ':'; });
        port = text.substr(hostEnd + 1);
    } else {
        const auto colon = std::min(text.find(':'), text.size());
        const auto labels = split(text.substr(0, colon), '.');
        validHost = std::all_of(labels.begin(), labels.end(), isDomainLabel);
        port = text.substr(colon);
    }
    return validHost && (port.empty() || (port.front() == ':' && nonEmptyAllOf(port.substr(1), isDigit)));
}

/// Runs of lower-case letters and digits, joined by ".", "_", "__" or any number of "-".
bool isPathComponent(std::string_view text) {
    const auto isRun = [](char c) { return isLower(c) || isDigit(c); };
    std::size_t i = 0;
    while (true) {
        const auto runStart = i;
        while (i < text.size() && isRun(text[i])) {
            ++i;
        }
        if (i == runStart) {
            return false;
        }
        if (i == text.size()) {
            return true;
        }
        const auto separatorEnd =
            std::find_if(text.begin() + static_cast<std::ptrdiff_t>(i), text.end(), isRun);
        const std::string_view separator(text.begin() + static_cast<std::ptrdiff_t>(i), separatorEnd);
        if (separator != "." && separator != "_" && separator != "__" &&
            !nonEmptyAllOf(separator, [](char c) { return c == '-'; })) {
            return false;
        }
        i += separator.size();
    }
}

bool isTag(std::string_view text) {
    constexpr std::size_t longestTag = 128;
    const auto isWord = [](char c) { return isAlphanumeric(c) || c == '_'; };
    return text.size() <= longestTag &&
           nonEmptyAllOf(text, [&](char c) { return isWord(c) || c == '.' || c == '-'; }) && isWord(text[0]);
}

bool isDigestReference(std::string_view text) {
    constexpr std::size_t fewestDigits = 32;
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) {
        return false;
    }
    const auto digits = text.substr(colon + 1);
    bool startOfComponent = true;
    for (const char c : text.substr(0, colon)) {
        const bool separator = c == '-' || c == '_' || c == '+' || c == '.';
        if (startOfComponent ? !(isLower(c) || isUpper(c)) : !(isAlphanumeric(c) || separator)) {
            return false;
        }
        startOfComponent = separator;
    }
    const auto algorithm = text.substr(0, colon);
    const bool rightLength = algorithm == "sha256"   ? digits.size() == 64
                             : algorithm == "sha512" ? digits.size() == 128
                                                     : digits.size() >= fewestDigits;
    return !startOfComponent && rightLength && nonEmptyAllOf(digits, isHex);
}

bool isServer(std::string_view component) {
    return component.find_first_of(".:") != std::string_view::npos || component == "localhost" ||
           component == "load" || std::any_of(component.begin(), component.end(), isUpper);
}

Error invalid(std::string_view text, std::string hint = {}) {
    return Error(cat("Invalid image reference '", printable(text), "'"), std::move(hint));
}

void splitName(std::string_view text, std::string_view name, ImageReference& reference) {
    const auto components = split(name, '/');
    const std::span<const std::string> all(components);
    const bool domainFirst = components.size() > 1 && isDomain(components[0]);
    const auto paths = domainFirst ? all.subspan(1) : all;
    if (!std::all_of(paths.begin(), paths.end(), isPathComponent)) {
        const bool hasCapitals = std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
            return std::any_of(path.begin(), path.end(), isUpper);
        });
        throw invalid(text, hasCapitals ? "Upper-case letters are not allowed in the name of an image" : "");
    }
    reference.image = components.back();
    if (components.size() == 1) {
        reference.server = "docker.io";
        reference.imageNamespace = "library";
        return;
    }
    const bool hasServer = isServer(components[0]);
    if (!hasServer && domainFirst && !isPathComponent(components[0])) {
        throw invalid(text);  // for example "a---/b" would be neither a server nor a namespace
    }
    reference.server = hasServer ? components[0] : "docker.io";
    const std::size_t first = hasServer ? 1 : 0;
    reference.imageNamespace = join(all.subspan(first, components.size() - 1 - first), "/");
}

}  // namespace

std::string ImageReference::repository() const {
    return cat(server, '/', imageNamespace, imageNamespace.empty() ? "" : "/", image);
}

std::string ImageReference::full() const {
    return cat(repository(), tag.empty() ? "" : ":", tag, digest.empty() ? "" : "@", digest);
}

ImageReference ImageReference::normalized() const {
    auto result = *this;
    if (!digest.empty()) {
        result.tag.clear();
    }
    return result;
}

std::string ImageReference::uniqueKey() const {
    if (!tag.empty()) {
        return cat(repository(), '/', tag);
    }
    std::string version = digest;
    std::replace(version.begin(), version.end(), ':', '-');
    return cat(repository(), '/', version);
}

ImageReference parseReference(std::string_view text) {
    if (text.find("..") != std::string_view::npos) {
        throw invalid(text, "An image reference cannot contain '..'");
    }
    if (const auto scheme = text.find("://"); scheme != std::string_view::npos && scheme > 0) {
        throw invalid(text, cat("Leave ", printable(text.substr(0, scheme + 3)), " off"));
    }
    ImageReference reference;
    auto name = text;
    if (const auto at = name.find('@'); at != std::string_view::npos) {
        reference.digest = name.substr(at + 1);
        name = name.substr(0, at);
        if (!isDigestReference(reference.digest)) {
            throw invalid(text, "A digest is sha256: and 64 hexadecimal digits");
        }
    }
    const auto lastSlash = name.find_last_of('/');
    const auto colon = name.find(':', lastSlash == std::string_view::npos ? 0 : lastSlash);
    if (colon != std::string_view::npos) {
        reference.tag = name.substr(colon + 1);
        name = name.substr(0, colon);
        if (!isTag(reference.tag)) {
            throw invalid(
                text,
                "A tag has 1 to 128 letters, digits and the characters '_', '.' and '-', and begins "
                "with none of the last two");
        }
    }
    splitName(text, name, reference);
    if (reference.tag.empty() && reference.digest.empty()) {
        reference.tag = "latest";
    }
    return reference;
}

ImageReference parseLoadReference(std::string_view text) {
    auto reference = parseReference(text);
    if (!reference.digest.empty()) {
        throw Error(
            "Destination image reference must not contain a digest when loading the image from a file",
            "See 'sarus help load'");
    }
    reference.server = "load";
    return reference;
}

}  // namespace sarus::image
