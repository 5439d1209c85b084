#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "image/build/read/member_source.hpp"

namespace sarus::image::build {

/// The layer's directory depends on other layers in a way that its files do not show.
inline constexpr int unreadableLayerStatus = 3;

/// What a container has written above its image, on behalf of a user who may not read all of it.
struct ContainerLayer {
    /// Inodes of opaque directories whose attribute only root can read (trusted.overlay.opaque).
    std::set<std::uint64_t> opaque{};
    /// Paths, without a slash in front, that stay as they are in the image.
    std::set<std::string, std::less<>> leftOut{};
};

/// Reads a layer that Podman's overlay driver has unpacked, in the order of the names. Names the members as
/// a layer's archive would. All forms of whiteouts and opaque directories are understood: devices 0:0, files
/// `.wh.NAME`, and attributes of the kernel's overlay and of fuse-overlayfs. An attribute `override_stat`
/// replaces owner, mode and type. Owners are those of this process's user namespace. Never follows symbolic
/// links, and keeps few directories open, however deep the tree is. Leaves sockets out, which no archive can
/// hold. Throws Error; with unreadableLayerStatus for files whose content or name is in another layer
/// (overlay's redirect and metacopy).
///
/// Of a container's layer, it leaves out what this user may not read, with a warning; what belongs to this
/// user and is closed to its owner is an error.
class LayerDirectory final : public MemberSource {
public:
    /// Counts the bytes read in `bytesRead`.
    LayerDirectory(const std::string& path, std::atomic<std::uint64_t>& bytesRead);
    /// `layer` must stay valid.
    LayerDirectory(const std::string& path, const ContainerLayer& layer,
                   std::atomic<std::uint64_t>& bytesRead);

    bool next(TarEntry& entry) override;
    void readContent(const std::function<void(std::span<const unsigned char>)>& sink) override;
    ChunkPtr chunk() const override { return current; }

private:
    struct Level {
        UniqueFd directory;  ///< closed if many levels are below
        std::pair<dev_t, ino_t> identity;
        std::string path;                ///< below the layer, with a slash at the end; "" for the layer
        std::vector<std::string> names;  ///< still to come, in reverse order
    };
    using Attributes = std::map<std::string, std::string, std::less<>>;

    void enter(const std::string& name, std::string path);
    void leave();
    std::string shown(const std::string& path) const;
    bool mayRead(int directory, const std::string& name, const struct stat& status,
                 const std::string& path) const;
    bool describe(const std::string& name, TarEntry& entry);
    void examine(const struct stat& status, TarEntry& entry) const;
    void markOpaque(const std::string& path);

    std::atomic<std::uint64_t>& counter;
    std::string layer;
    const ContainerLayer* container = nullptr;
    std::vector<Level> levels;
    std::vector<std::string> marks;  ///< names of whiteouts to report next
    std::map<std::pair<dev_t, ino_t>, std::string> linked;
    std::string fileName;  ///< of the current regular file, in the current directory
    std::uint64_t size = 0;
    ChunkPtr current;
};

}  // namespace sarus::image::build
