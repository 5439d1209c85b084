#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/container_plan.hpp"
#include "oci/cdi_spec.hpp"

namespace sarus::engine {

/// A value of --device is either a path (device_request.hpp) or the qualified name of a CDI device.
bool isCdiRequest(std::string_view request);

/// The CDI devices among the values of --device, in order, each once.
std::vector<std::string> cdiRequests(const std::vector<std::string>& devices);

/// What was found in the directories with CDI files.
struct CdiFiles {
    struct File {
        oci::CdiSpec spec;
        std::size_t priority = 0;  ///< the place of its directory in the list; a higher one hides devices of the lower ones
    };
    std::vector<File> files;
    std::vector<std::string> problems;     ///< why a file or a directory could not be used, one line each
    std::vector<std::string> directories;  ///< where files were looked for, for messages
};

/// Looks the names up and returns what the container has to be given: for each device the edits of its file (on its first use),
/// then its own. Throws Error which names the device, if there is none of that name or if two files of equal priority have it.
std::vector<CdiEdits> resolveCdiDevices(const CdiFiles& found, const std::vector<std::string>& names);

/// Completes the plan: variables replace those of the same name; device nodes those of the same path; mounts are added, and then
/// all mounts are sorted, stably, by the number of components of their destinations; hooks come after those of `hooksDir`; groups
/// are added where there are privileges. Pure. Throws Error for what this engine does not do, naming the device and its file.
void applyCdiEdits(const std::vector<CdiEdits>& edits, const HostFacts& facts, ContainerPlan& plan);

}  // namespace sarus::engine
