#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "image/build/read/member_source.hpp"

namespace sarus::image::build {

/// The members that a layer's archive had, from containers/storage's description of it: the lines of JSON,
/// for one part of the archive each, of tar-split (github.com/vbatts/tar-split, "tar/storage").
class LayerPromise {
public:
    /// Reads a `.tar-split.gz`. Throws Error.
    explicit LayerPromise(const std::string& path);

    /// Notes a member that the unpacked layer has.
    void keep(const TarEntry& entry);
    /// A member that the archive had and the unpacked layer lacks, or has with another size.
    std::optional<std::string> broken() const;

private:
    void takeLines(std::string& text, const std::string& path);
    void addLine(const std::string& line, const std::string& path);

    std::unordered_map<std::string, std::uint64_t> sizes;  ///< of members not seen yet, by path
};

}  // namespace sarus::image::build
