#include "podman_hpc/hook_tool/module_directory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_checker.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "hooks/kit/container_namespaces.hpp"

namespace sarus::podman_hpc {

namespace {

/// Whether Podman keeps images, containers or volumes here.
bool isStore(const std::string& directory) {
    return pathExists(cat(directory, "/overlay-layers")) || pathExists(cat(directory, "/vfs-layers")) ||
           pathExists(cat(directory, "/overlay-containers")) || pathExists(cat(directory, "/libpod"));
}

}  // namespace

void requireTrustedModules(const std::string& directory) {
    if (!directory.starts_with('/')) {
        throw Error(cat("PODMANHPC_MODULES_DIR is not an absolute path: ", printable(directory)));
    }
    if (!pathExists(directory)) {
        return;
    }
    const auto opened = openFile(directory, O_PATH | O_DIRECTORY);
    for (auto path = pathOfDescriptor(opened.get()); path.size() > 1;) {
        if (isStore(path)) {
            throw Error(cat("PODMANHPC_MODULES_DIR is inside a store of containers: ", printable(directory)),
                        "Images must not bring modules of their own; set modules_dir");
        }
        path.resize(path.rfind('/'));
    }
    if (::geteuid() == 0 && hooks::isInitialUserNamespace()) {
        PathChecker paths({.alsoTrusted = {}, .stickyParents = true});
        paths.check(directory);
        paths.checkTree(directory);
    }
}

}  // namespace sarus::podman_hpc
