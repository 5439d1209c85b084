#pragma once

#include <string>
#include <string_view>

namespace sarus::podman_hpc {

/// `<prefix>/etc/podman_hpc/NAME` if it exists, else `/etc/podman_hpc/NAME`.
std::string siteFile(const std::string& prefix, std::string_view name);

}  // namespace sarus::podman_hpc
