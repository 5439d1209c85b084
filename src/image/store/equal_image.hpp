#pragma once

#include <functional>
#include <optional>
#include <string>

#include "image/store/index.hpp"
#include "image/store/lookup.hpp"
#include "image/store/repository.hpp"
#include "image/types/reference.hpp"

namespace sarus::image {

/// What is known of an image that is to be stored. Each member is "" if unknown; each alone decides which
/// files the image has.
struct ImageContent {
    std::string layersId{};        ///< image/store/conversions.hpp
    std::string id{};              ///< hex digits of the configuration's digest
    std::string registryDigest{};  ///< of a manifest, not of an image index
};

/// Looks for a stored image of equal content that a conversion with `build` would give again, so that its
/// file need not be made again. Looks only at files of the caller or root that nobody else can write, that
/// this program has converted (Sarus 1.7 does not record how), and whose bytes are still the recorded ones:
/// they are read, after a call of `onCheck`. A damaged file is a warning. Calls `build` only if it matters.
/// Ignores errors: the image can be converted. Throws only when interrupted.
std::optional<FoundImage> findEqualImage(Repository& repository, const ImageContent& content,
                                         const std::function<BuildRecord()>& build,
                                         const std::function<void(const ImageReference&)>& onCheck);

}  // namespace sarus::image
