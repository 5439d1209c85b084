#pragma once

#include <optional>
#include <string>

#include "engine/site_config.hpp"

namespace sarus::starter {

/// Throws Error if a label of the configuration (`selinuxLabel`, `selinuxMountLabel`) cannot be given to anything: this kernel
/// has no SELinux, or its policy does not know the label. Some runtimes would start the container without the label. Where the
/// policy does not let this process ask, the kernel decides when the label is used.
void checkSelinuxLabels(const engine::SiteConfig& config);

/// Options of a mount, all files of which get the label `selinuxMountLabel` of the configuration, if there is one.
/// The label stands in quotation marks: those with several categories have commas (mount(8), option context).
std::string withMountLabel(std::string options, const std::optional<std::string>& label);

}  // namespace sarus::starter
