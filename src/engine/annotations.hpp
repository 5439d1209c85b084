#pragma once

#include <map>
#include <string>

#include "engine/container_plan.hpp"
#include "engine/launch_request.hpp"
#include "engine/site_config.hpp"

namespace sarus::engine {

/// The annotations of the container. The command line overrides the engine, which overrides the image's
/// labels. Labels that belong to the caller (hook_contracts/callers_settings.hpp) are skipped, unless the
/// site allows them.
///
/// Users and images must not set keys that make an OCI runtime open files or load code (such as crun's
/// `run.oci.*`), because the runtime has the starter's rights: such labels are skipped, such options are an
/// Error.
std::map<std::string, std::string> makeAnnotations(const SiteConfig& config, const LaunchRequest& request,
                                                   const HostFacts& facts);

}  // namespace sarus::engine
