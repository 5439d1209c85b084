#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::podman_hpc {

// The lists of a store of containers/storage: images.json and layers.json.

/// An image; `json` is the whole record. Ids are 64 hexadecimal digits, because they become names of files.
struct PodmanImage {
    std::string id;
    std::string layer;  ///< the top one; "" if the image has none
    std::string digest;
    std::vector<std::string> names;
    std::map<std::string, std::optional<std::uint64_t>> documents{};  ///< their sizes in bytes, if known
    std::string json;
};

struct PodmanLayer {
    std::string id;
    std::string parent;      ///< "" for the lowest
    std::uint64_t size = 0;  ///< of the layer's archive in bytes; 0 if unknown
    std::string diffId{};    ///< the digest of the layer's archive; "" if unknown
    std::string json;
};

/// Parse a list. Records that containers/storage cannot read, and what is missing behind the end of a list
/// that was cut off, are left out: `problems` gets a sentence about each, which names `file`.
std::vector<PodmanImage> parseImages(std::string_view text, const std::string& file,
                                     std::vector<std::string>& problems);
std::vector<PodmanLayer> parseLayers(std::string_view text, const std::string& file,
                                     std::vector<std::string>& problems);

/// The text of a list.
std::string serialize(const std::vector<PodmanImage>& images);
std::string serialize(const std::vector<PodmanLayer>& layers);

/// The image with other names.
PodmanImage withNames(const PodmanImage& image, const std::vector<std::string>& names);

/// The image as another store may hold it: without references to layers that belong to its own store alone.
PodmanImage portable(const PodmanImage& image);

/// The names under which a word can stand in a store, most literal first: with `:latest`, and with the
/// registries that Podman adds. A transport `docker://` does not count.
std::vector<std::string> possibleNames(std::string_view word);

/// The image of a name, or else of an id or the beginning of one; null if there is none. Throws Error if
/// several ids begin so.
const PodmanImage* findImage(const std::vector<PodmanImage>& images, std::string_view word);
const PodmanImage* findImageById(const std::vector<PodmanImage>& images, std::string_view id);
const PodmanLayer* findLayer(const std::vector<PodmanLayer>& layers, std::string_view id);

/// A layer and all below it, the lowest first. `complete` tells whether the lowest one has no parent.
struct LayerChain {
    std::vector<PodmanLayer> layers;
    bool complete = false;
};
LayerChain chainOf(const std::vector<PodmanLayer>& layers, const std::string& top);

}  // namespace sarus::podman_hpc
