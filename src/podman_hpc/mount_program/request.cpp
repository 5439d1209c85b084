#include "podman_hpc/mount_program/request.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

bool isOctal(char c) {
    return c >= '0' && c <= '7';
}

/// The character that the text after a backslash stands for. Removes it from the text.
char takeEscaped(std::string_view& text) {
    if (text.size() >= 3 && text[0] <= '3' && std::all_of(text.begin(), text.begin() + 3, isOctal)) {
        const int code = (text[0] - '0') * 64 + (text[1] - '0') * 8 + (text[2] - '0');
        text.remove_prefix(3);
        return static_cast<char>(code);
    }
    const char c = text.front();
    text.remove_prefix(1);
    return c;
}

std::string escape(std::string_view text, std::string_view special) {
    std::string out;
    for (const char c : text) {
        if (special.find(c) != std::string_view::npos) {
            out += '\\';
        }
        out += c;
    }
    return out;
}

/// A value that the kernel reads in quotes keeps them and its commas.
bool isQuoted(std::string_view option) {
    const auto equals = option.find('=');
    return equals != std::string_view::npos && option.substr(equals + 1).starts_with('"');
}

}  // namespace

std::vector<std::string> splitMountOptions(std::string_view text) {
    std::vector<std::string> options(1);
    bool inQuotes = false;
    while (!text.empty()) {
        const char c = text.front();
        text.remove_prefix(1);
        if (c == '\\' && !inQuotes && !text.empty()) {
            options.back() += takeEscaped(text);
        } else if (c == ',' && !inQuotes) {
            options.emplace_back();
        } else {
            if (c == '"') {
                inQuotes = !inQuotes && options.back().ends_with('=');
            }
            options.back() += c;
        }
    }
    return options;
}

std::vector<std::string> splitLayers(std::string_view text) {
    std::vector<std::string> layers(1);
    for (; !text.empty(); text.remove_prefix(1)) {
        if (text.front() == '\\' && text.size() > 1) {
            text.remove_prefix(1);
            layers.back() += text.front();
        } else if (text.front() == ':') {
            layers.emplace_back();
        } else {
            layers.back() += text.front();
        }
    }
    return layers;
}

std::optional<OverlayRequest> parseOverlayRequest(const std::vector<std::string>& words) {
    if (words.size() != 3 || words[0] != "-o" || words[2].starts_with('-')) {
        return std::nullopt;
    }
    OverlayRequest request;
    request.target = words[2];
    for (auto& option : splitMountOptions(words[1])) {
        const std::string_view text = option;
        if (text.starts_with("lowerdir=")) {
            request.lower = splitLayers(text.substr(9));
        } else if (text.starts_with("upperdir=")) {
            request.upper = text.substr(9);
        } else if (text.starts_with("workdir=")) {
            request.work = text.substr(8);
        } else if (!text.empty()) {
            request.further.push_back(std::move(option));
        }
    }
    return request.lower.empty() ? std::nullopt : std::optional(std::move(request));
}

bool forbidDevices(OverlayRequest& request) {
    const auto isAbout = [](const std::string& option) { return option == "dev" || option == "nodev"; };
    const bool isNew = std::none_of(request.further.begin(), request.further.end(), isAbout);
    if (isNew) {
        request.further.emplace_back("nodev");
    }
    return isNew;
}

std::string formatOptions(const OverlayRequest& request) {
    std::vector<std::string> lower;
    std::transform(request.lower.begin(), request.lower.end(), std::back_inserter(lower),
                   [](const std::string& layer) { return escape(layer, ":\\"); });
    std::vector<std::string> options{escape(cat("lowerdir=", join(lower, ":")), ",\\")};
    if (!request.upper.empty()) {
        options.push_back(escape(cat("upperdir=", request.upper), ",\\"));
        options.push_back(escape(cat("workdir=", request.work), ",\\"));
    }
    for (const auto& option : request.further) {
        options.push_back(isQuoted(option) ? option : escape(option, ",\\"));
    }
    return join(options, ",");
}

}  // namespace sarus::podman_hpc
