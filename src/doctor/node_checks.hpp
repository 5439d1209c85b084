#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/finding.hpp"

namespace sarus::doctor {

// Checks of the node that more than one program needs. `otherwise`: the grade if the check fails.

/// Tries to create one.
Finding checkUserNamespaces(Finding::Grade otherwise);
/// Whether this process can open /dev/fuse.
Finding checkFuse(Finding::Grade otherwise);
/// The devices of the CDI files in these directories. `useWith`: the command that they are options of.
Finding checkCdi(const std::vector<std::string>& directories, std::string_view useWith);

/// The files in a directory with one of the endings; none if there is no such directory. Throws Error.
std::vector<std::string> filesIn(const std::string& directory,
                                 std::initializer_list<std::string_view> endings);

/// The nearest existing directory.
std::string existingPart(std::string path);
/// The number of the kind of filesystem, as in statfs(2); 0 if it is not known.
long filesystemOf(const std::string& path);
/// The name of a kind of filesystem that several nodes share, otherwise "".
std::string_view sharedFilesystem(long magic);
/// The same for the nearest existing directory.
std::string_view sharedFilesystemOf(const std::string& path);
/// Bytes that the caller may still write there; nullopt if unknown. Ignores quotas.
std::optional<std::uint64_t> freeSpace(const std::string& path);

}  // namespace sarus::doctor
