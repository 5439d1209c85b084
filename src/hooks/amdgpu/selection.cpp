#include <strings.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "base/text.hpp"
#include "hooks/amdgpu/gpu.hpp"

namespace sarus::hooks::amdgpu {

namespace {

constexpr std::string_view uuidPrefix = "GPU-";

bool startsWithIgnoringCase(const std::string& text, std::string_view start) {
    return text.size() >= start.size() && ::strncasecmp(text.c_str(), start.data(), start.size()) == 0;
}

std::string describe(const std::vector<Gpu>& gpus) {
    std::vector<std::string> names;
    for (const auto& gpu : gpus) {
        names.push_back(gpu.uniqueId ? cat(gpu.index, " (", gpu.uuid(), ")") : cat(gpu.index));
    }
    return join(names, ", ");
}

/// The GPUs that match an entry of the list.
std::vector<Gpu> findMatches(const std::vector<Gpu>& gpus, std::string_view entry) {
    const auto index = parseNumber(entry);
    const bool isUuid =
        entry.size() > uuidPrefix.size() && startsWithIgnoringCase(std::string(entry), uuidPrefix);
    std::vector<Gpu> matches;
    for (const auto& gpu : gpus) {
        if ((index && *index == gpu.index) || (isUuid && startsWithIgnoringCase(gpu.uuid(), entry))) {
            matches.push_back(gpu);
        }
    }
    return matches;
}

}  // namespace

std::string Gpu::uuid() const {
    if (!uniqueId) {
        return {};
    }
    std::string text(uuidPrefix);
    for (int shift = 60; shift >= 0; shift -= 4) {
        text += hexDigits[(*uniqueId >> static_cast<unsigned>(shift)) & 0xfU];
    }
    return text;
}

std::vector<Gpu> selectGpus(const std::vector<Gpu>& gpus, std::string_view visibleDevices) {
    if (trim(visibleDevices).empty()) {
        return gpus;
    }
    std::vector<Gpu> selected;
    for (const auto& part : split(visibleDevices, ',')) {
        const auto entry = trim(part);
        const auto matches = findMatches(gpus, entry);
        if (matches.size() != 1) {
            throw Error(
                cat("ROCR_VISIBLE_DEVICES holds '", printable(entry), "', which is ",
                    matches.empty() ? "no AMD GPU of this node" : "more than one AMD GPU of this node"),
                cat("There are: ", describe(gpus)));
        }
        if (std::find(selected.begin(), selected.end(), matches.front()) == selected.end()) {
            selected.push_back(matches.front());
        }
    }
    return selected;
}

}  // namespace sarus::hooks::amdgpu
