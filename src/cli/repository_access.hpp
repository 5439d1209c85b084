#pragma once

#include "cli/command.hpp"
#include "cli/context.hpp"
#include "image/import.hpp"
#include "image/repository.hpp"

namespace sarus::cli {

/// The repository that the options of a command mean (`--centralized-repository`), with the site's lock timings. Who wants to
/// change the centralised one without being root is warned.
image::Repository openRepository(Context& context, const Arguments& arguments, image::RepositoryAccess access);

/// What pull and load need, from the site configuration, from `--platform` and from `--temp-dir`. Throws Error.
image::ImportSettings importSettings(Context& context, const Arguments& arguments);

/// The options which several commands have.
Option centralizedRepositoryOption();
Option platformOption();
Option quietOption();
Option temporaryDirectoryOption();

}  // namespace sarus::cli
