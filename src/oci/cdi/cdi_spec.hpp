#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oci/cdi/container_edits.hpp"

namespace sarus::oci {

/// Names of the Container Device Interface, version 1.1.0 (CNCF Technical Advisory Group Runtime, "SPEC.md").

/// "vendor.com/class=device".
struct CdiName {
    std::string kind;  ///< "vendor.com/class"
    std::string device;
};

/// The parts of a fully qualified name; nullopt for anything else, including everything that begins with '/'.
std::optional<CdiName> parseCdiName(std::string_view text);

struct CdiDevice {
    std::string name;
    ContainerEdits edits;
};

/// One CDI file.
struct CdiSpec {
    std::string file;  ///< its path, for messages
    std::string kind;
    ContainerEdits edits;  ///< for each container that gets one of the devices
    std::vector<CdiDevice> devices;
};

/// Parses and validates the text of a CDI file: YAML if its name ends in ".yaml", otherwise JSON. In YAML,
/// unquoted numbers and booleans are texts where the specification has a string. As strict
/// as the reference implementation: unknown keys, unknown versions, and features newer than the file's
/// version are errors. Throws Error naming `file`, the key's path and the expected value.
CdiSpec parseCdiSpec(std::string_view text, std::string_view file);

}  // namespace sarus::oci
