#pragma once

#include "cli/command.hpp"
#include "cli/context.hpp"
#include "image/import.hpp"
#include "image/repository.hpp"

namespace sarus::cli {

/// The repository that the options of a command mean (`--centralized-repository`), with the site's lock timings. Who wants to
/// change the centralised one without being root is warned.
image::Repository openRepository(Context& context, const Arguments& arguments, image::RepositoryAccess access);

/// What pull and load need, from the site configuration and from `--temp-dir`.
image::ImportSettings importSettings(Context& context, const Arguments& arguments);

/// The options which several commands have.
Option centralizedRepositoryOption();
Option temporaryDirectoryOption();

}  // namespace sarus::cli
