#pragma once

#include <optional>
#include <string>

#include "cli/command.hpp"
#include "image/store/prune.hpp"
#include "image/types/reference.hpp"

namespace sarus::cli {

/// The limits of `--older-than` (or `--filter until=AGE`) and `--keep-bytes`; nullopt without these options.
/// Throws Error.
std::optional<image::PruneLimits> readPruneLimits(const Arguments& arguments);

/// Removes what exceeds `pruneAfterPull` of the site from the caller's own repository, except the image that
/// was just pulled. Prints a line for each image, unless `quiet`. A failure is a warning.
void pruneAfterPull(Context& context, image::Repository& repository, const image::ImageReference& pulled,
                    bool quiet) noexcept;

/// "library/x:1 (12.00MB, last used 3 d ago)"
std::string describeUsage(const image::ImageUsage& image);

}  // namespace sarus::cli
