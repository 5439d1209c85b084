#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/container_plan.hpp"
#include "oci/cdi/cdi_spec.hpp"

namespace sarus::engine {

/// A value of --device is either a path (device_request.hpp) or the qualified name of a CDI device.
bool isCdiRequest(std::string_view request);

/// The CDI devices among the values of --device, in order, each once.
std::vector<std::string> cdiRequests(const std::vector<std::string>& devices);

/// The CDI files found in the searched directories.
struct CdiFiles {
    struct File {
        oci::CdiSpec spec;
        /// Position of its directory in the list; a higher one hides devices of the lower ones.
        std::size_t priority = 0;
    };
    std::vector<File> files;
    std::vector<std::string> problems;     ///< why a file or directory is unusable, one line each
    std::vector<std::string> directories;  ///< the searched directories, for messages
};

/// Looks up the names and returns the edits of the container: for each device those of its file (on first
/// use), then its own. Throws Error naming the device if no file defines it or two files of equal priority
/// do.
std::vector<CdiEdits> resolveCdiDevices(const CdiFiles& found, const std::vector<std::string>& names);

/// Completes the plan. Variables and device nodes replace those with the same name or path. Mounts are added,
/// and all mounts are then sorted, stably, by the number of components of their destinations. Hooks follow
/// those of `hooksDir`. Groups are added if privileged. Pure. Throws Error, naming the device and its file,
/// for edits that this engine does not support.
void applyCdiEdits(const std::vector<CdiEdits>& edits, const HostFacts& facts, ContainerPlan& plan);

}  // namespace sarus::engine
