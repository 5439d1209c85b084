#pragma once

#include <optional>
#include <string>

namespace sarus::starter {

/// The program that the kernel starts for the open program file: the one on its "#!" line, or the dynamic
/// linker of an ELF file for this node. nullopt if there is none or the file cannot be read.
std::optional<std::string> interpreterOf(int file);

}  // namespace sarus::starter
