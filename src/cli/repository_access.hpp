#pragma once

#include "cli/command.hpp"
#include "cli/context.hpp"
#include "image/import/import.hpp"
#include "image/store/repository.hpp"

namespace sarus::cli {

/// The repository that the options select (`--centralized-repository`), with the site's lock timings. Warns
/// if another user than root wants to change the centralized one.
image::Repository openRepository(Context& context, const Arguments& arguments,
                                 image::RepositoryAccess access);

/// The settings for pull and load, from the site configuration, `--platform` and `--temp-dir`. Throws Error.
image::ImportSettings importSettings(Context& context, const Arguments& arguments);

/// Parses the image reference on the command line of `command`. Throws Error with the line "See 'sarus help
/// <command>'".
image::ImageReference referenceArgument(const std::string& text, const std::string& command);

/// Options of several commands.
Option centralizedRepositoryOption();
Option platformOption();
Option quietOption();
Option temporaryDirectoryOption();

}  // namespace sarus::cli
