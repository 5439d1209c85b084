#pragma once

#include <map>
#include <string>

#include "engine/container_plan.hpp"
#include "engine/launch_request.hpp"
#include "engine/site_config.hpp"

namespace sarus::engine {

/// The annotations of the container: the command line's before the engine's before the image's labels.
///
/// Keys by which an OCI runtime can be told to open files or load code (`run.oci.*` of crun and their like) are no user's and no
/// image's to set, because the runtime acts with the starter's rights: labels of that kind are left out, options are an Error.
std::map<std::string, std::string> makeAnnotations(const SiteConfig& config, const LaunchRequest& request,
                                                   const HostFacts& facts);

}  // namespace sarus::engine
