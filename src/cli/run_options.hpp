#pragma once

#include <optional>
#include <vector>

#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/context.hpp"
#include "cli/edf.hpp"
#include "cli/edf_file.hpp"
#include "engine/launch_request.hpp"
#include "engine/site_config.hpp"

namespace sarus::cli {

/// The options of `sarus run`, sorted.
std::vector<Option> runOptions();

/// What they ask for, with the site's defaults. Throws Error for mistakes that no file is needed to see.
engine::LaunchRequest readRunOptions(const engine::SiteConfig& config, const Arguments& arguments);

/// That of --edf.
std::optional<EdfFile> readDefinition(Context& context, const Arguments& arguments);

/// The variables of a definition come from the image first, then from the caller.
void applyDefinition(const EdfFile& definition, engine::LaunchRequest& request);

/// An annotation of the command line or of the definition that enables the SSH hook means the same as --ssh.
void applySshAnnotation(const Arguments& arguments, engine::LaunchRequest& request);

}  // namespace sarus::cli
