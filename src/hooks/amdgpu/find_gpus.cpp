#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "hooks/amdgpu/gpu.hpp"

namespace sarus::hooks::amdgpu {

namespace {

/// The names in a directory, sorted; none if it does not exist.
std::vector<std::string> listNames(const std::string& directory) {
    Directory entries(directory, Missing::isEmpty);
    std::vector<std::string> names;
    while (const char* name = entries.next()) {
        if (name[0] != '.') {
            names.emplace_back(name);
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

/// The number after `prefix`, as in "card12".
std::optional<std::uint64_t> numberAfter(std::string_view text, std::string_view prefix) {
    return text.starts_with(prefix) ? parseNumber(text.substr(prefix.size())) : std::nullopt;
}

/// The last component of the target of a link in /dev/dri/by-path; empty if it is not a link.
std::string linkTarget(const std::string& path) {
    std::array<char, 4096> target{};
    const auto length = ::readlink(path.c_str(), target.data(), target.size());
    const std::string_view text(target.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    return fileNameOf(text);
}

/// A graphics card with a link in /dev/dri/by-path.
struct Card {
    std::string name;
    std::string render;  ///< empty if it has none, as for the display adapters of servers
    std::string link;
};

std::vector<Card> cardsByPath(const std::string& dev) {
    const auto directory = cat(dev, "/dri/by-path");
    std::vector<Card> cards;
    for (const auto& name : listNames(directory)) {
        constexpr std::string_view kind = "-card";
        const auto at = name.rfind(kind);
        if (at == std::string::npos) {
            continue;
        }
        auto sibling = name;
        sibling.replace(at, kind.size(), "-render");
        const auto render = linkTarget(cat(directory, '/', sibling));
        cards.push_back({linkTarget(cat(directory, '/', name)),
                         numberAfter(render, "renderD") ? render : std::string(), name});
    }
    return cards;
}

/// The lines "key value" of a node's properties; none for a GPU that the kernel hides from this process.
std::map<std::string, std::uint64_t, std::less<>> readProperties(const std::string& path) {
    std::map<std::string, std::uint64_t, std::less<>> properties;
    try {
        for (const auto& line : split(readFile(path, 1U << 16U), '\n')) {
            const auto words = splitWords(line);
            const auto number = words.size() == 2 ? parseNumber(words[1]) : std::nullopt;
            if (number) {
                properties.emplace(words[0], *number);
            }
        }
    } catch (const Error& error) {
        if (error.errnum() != EPERM && error.errnum() != EACCES && error.errnum() != ENOENT) {
            throw;
        }
    }
    return properties;
}

std::string cardOf(const std::string& render, const std::vector<Card>& cards, const std::string& sys) {
    const auto found =
        std::find_if(cards.begin(), cards.end(), [&](const Card& card) { return card.render == render; });
    if (found != cards.end()) {
        return found->name;
    }
    for (const auto& name : listNames(cat(sys, "/class/drm/", render, "/device/drm"))) {
        if (numberAfter(name, "card")) {
            return name;
        }
    }
    return {};
}

std::vector<Gpu> gpusOfTopology(const std::string& sys, const std::vector<Card>& cards) {
    const auto directory = cat(sys, "/class/kfd/kfd/topology/nodes");
    std::vector<std::uint64_t> nodes;
    for (const auto& name : listNames(directory)) {
        if (const auto number = parseNumber(name)) {
            nodes.push_back(*number);
        }
    }
    std::sort(nodes.begin(), nodes.end());
    std::vector<Gpu> gpus;
    for (const auto node : nodes) {
        const auto properties = readProperties(cat(directory, '/', node, "/properties"));
        const auto valueOf = [&](std::string_view key) {
            const auto found = properties.find(key);
            return found == properties.end() ? 0 : found->second;
        };
        // The other nodes are processors.
        if (valueOf("simd_count") == 0 || valueOf("drm_render_minor") == 0) {
            continue;
        }
        Gpu gpu;
        gpu.index = static_cast<unsigned>(gpus.size());
        gpu.render = cat("renderD", valueOf("drm_render_minor"));
        gpu.card = cardOf(gpu.render, cards, sys);
        if (const auto id = valueOf("unique_id"); id != 0) {
            gpu.uniqueId = id;
        }
        gpus.push_back(std::move(gpu));
    }
    return gpus;
}

}  // namespace

FoundGpus findGpus(const std::string& dev, const std::string& sys) {
    const auto cards = cardsByPath(dev);
    FoundGpus result{gpusOfTopology(sys, cards), {}};
    if (!result.gpus.empty()) {
        return result;
    }
    for (const auto& card : cards) {
        const auto number = numberAfter(card.name, "card");
        if (!number || card.render.empty()) {
            result.warnings.push_back(cat("Leaving out ", printable(cat(dev, "/dri/by-path/", card.link)),
                                          ": ", number ? "it has no render node" : "it leads to no card"));
            continue;
        }
        result.gpus.push_back({static_cast<unsigned>(*number), card.name, card.render, std::nullopt});
    }
    std::sort(result.gpus.begin(), result.gpus.end(),
              [](const Gpu& a, const Gpu& b) { return a.index < b.index; });
    return result;
}

}  // namespace sarus::hooks::amdgpu
