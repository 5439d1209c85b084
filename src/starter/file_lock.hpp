#pragma once

#include <string>

namespace sarus::starter {

/// Tries to get the exclusive flock(2) of an open file for about `milliseconds`. False if somebody else keeps it, or if the
/// filesystem knows no locks. All of it is polling: a lock that is waited for could be kept for ever by a stopped process.
bool lockWithin(int fd, int milliseconds);

/// Whether `path`, no link, is the open file: a locked file may have been removed by whoever had the lock before.
bool hasName(int fd, const std::string& path);

}  // namespace sarus::starter
