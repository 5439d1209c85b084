#include "podman_hpc/config/site_file.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

std::string siteFile(const std::string& prefix, std::string_view name) {
    auto own = cat(prefix, "/etc/podman_hpc/", name);
    return pathExists(own) ? own : cat("/etc/podman_hpc/", name);
}

}  // namespace sarus::podman_hpc
