#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::oci {

/// A directory or file of the node, or a memory file system, and its place in a container; or the wish to
/// have nothing mounted at a place. Paths hold any byte but NUL. They become text again only for another
/// program (toText), never within one.
struct MountRequest {
    std::string source{};  ///< empty without a directory or file of the node
    std::string destination{};
    bool readonly = false;
    bool isSquashfs = false;  ///< the source is a squashfs file, whose content is mounted
    /// A memory file system of so many bytes; 0: the kernel's limit, half of the memory.
    std::optional<std::uint64_t> tmpfsSize{};
    std::optional<std::uint64_t> tmpfsMode{};  ///< permissions of its root
    bool isUnmount = false;                    ///< leaves out what earlier requests mount on the destination
    std::optional<bool> mustBeDirectory{};     ///< the source, or false: it must not be one
    std::string text{};                        ///< as it was written, for messages

    bool operator==(const MountRequest&) const = default;
};

/// Parses the value of --mount: a record of CSV (RFC 4180) whose fields are `key[=value]`. For `type=bind`:
/// `source`|`src`, `destination`|`dst`|`target`, `readonly`|`ro`, `rw`, `x-create=dir|file|auto`. For
/// `type=squashfs`: the same, always read-only. For `type=tmpfs`: the destination, `size` (a number of bytes,
/// or with k, m or g) and `mode` (octal). For `type=umount`: the destination. No trimming; paths must be
/// absolute. Throws Error with the documented messages.
MountRequest parseMountRequest(std::string_view request);

/// Parses SOURCE[:DESTINATION[:FLAGS]]; without a destination it is the source. FLAGS are separated by commas
/// or '+'; `sqsh` makes the source a squashfs file. The source `tmpfs` stands for a memory file system with
/// the flags `size=SIZE` and `mode=MODE`, the source `umount` for type=umount. A backslash takes the meaning
/// from a following ':', ',' or backslash. A relative source begins with '.' and starts at `workingDirectory`
/// ("": there is none). Throws Error "<where>: ...".
MountRequest parseVolume(std::string_view text, std::string_view where, std::string_view workingDirectory);

/// Splits a list of volumes at commas. A source follows, which begins with '/', "./", "../", "tmpfs:" or
/// "umount:" or is "." or ".."; other commas belong to a volume.
std::vector<std::string> splitVolumes(std::string_view text);

/// The path as a part of a volume's text.
std::string volumeWord(std::string_view path);

/// Parses DESTINATION[:FLAGS] of a memory file system, with backslashes as in a volume. Throws Error.
MountRequest parseTmpfs(std::string_view text);

/// The mount of a directory or file of the node at the same path.
MountRequest mountInPlace(std::string_view path);

/// Throws Error "Invalid mount request ..." if a path is not absolute.
void checkMountRequest(const MountRequest& mount);

/// The value of --mount that parseMountRequest turns into `mount`, apart from `text`.
std::string toText(const MountRequest& mount);

}  // namespace sarus::oci
