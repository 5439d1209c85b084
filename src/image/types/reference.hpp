#pragma once

#include <string>
#include <string_view>

namespace sarus::image {

/// The name of an image: server/namespace/image[:tag][@digest]. Made by the parsers below, so its parts
/// follow the grammar of the Docker distribution project and are safe as path components.
struct ImageReference {
    std::string server;
    std::string imageNamespace;  ///< may be nested ("a/b") and may be empty
    std::string image;
    std::string tag;     ///< "" if there is none
    std::string digest;  ///< "algorithm:hex", "" if there is none

    bool operator==(const ImageReference&) const = default;

    /// "server/namespace/image"; without the namespace's slash if it is empty.
    std::string repository() const;
    /// The full string form.
    std::string full() const;
    /// The same image without the tag if it has a digest, which identifies it alone.
    ImageReference normalized() const;
    /// The image's path below `images/`: "server/namespace/image/tag", or ".../algorithm-hex" if there is no
    /// tag.
    std::string uniqueKey() const;
};

/// Parses the user's input. The server defaults to docker.io and the namespace to library; the tag defaults
/// to latest if there is no digest. Throws Error "Invalid image reference '<text>'".
ImageReference parseReference(std::string_view text);

/// The destination of `sarus load`: like parseReference, but the server is always "load". Throws Error for a
/// digest.
ImageReference parseLoadReference(std::string_view text);

}  // namespace sarus::image
