#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/context.hpp"
#include "image/store/lookup.hpp"
#include "image/types/reference.hpp"

namespace sarus::cli {

// Images by the names that people type. The repository is the one that the options select.

/// Opens the image of a (normalised) reference: under the reference's own rules (docker.io, index.docker.io),
/// else of a bare name that `load` has stored, else by its IMAGE ID. Throws Error "Image <reference> is not
/// available", with a hint about images that may have been meant.
image::FoundImage findStoredImage(Context& context, const Arguments& arguments,
                                  const image::ImageReference& reference);

/// The reference of the image that `text` names in one of these ways. If there is none, the reference as it
/// was written. Throws Error if it is no reference, or begins the ID of several images.
image::ImageReference storedReference(Context& context, const Arguments& arguments, const std::string& text,
                                      const std::string& command);

/// All names of a stored image that an ID stands for; otherwise one, as storedReference().
std::vector<image::ImageReference> storedReferences(Context& context, const Arguments& arguments,
                                                    const std::string& text, const std::string& command);

}  // namespace sarus::cli
