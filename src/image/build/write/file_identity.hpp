#pragma once

#include <cstdint>
#include <string>

#include "image/build/hash/written_digest.hpp"
#include "squashfs/reader/file.hpp"

namespace sarus::image::build {

/// Writes an identity (squashfs/identity.hpp) with its mark, from hexadecimal digits.
void writeIdentity(squashfs::File& file, std::uint64_t offset, const std::string& digits);

/// Puts zeros in place of a file's identity, and returns the one that its other bytes decide. `written` knows
/// all that was written.
std::string computeIdentity(squashfs::File& file, std::uint64_t offset, WrittenDigest& written);

/// Completes a file with its identity, and returns the file's digest.
std::string identifyFile(squashfs::File& file, std::uint64_t offset, WrittenDigest& written);

}  // namespace sarus::image::build
