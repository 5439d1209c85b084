#include "starter/entry/request_channel.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/read_bytes.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace sarus::starter {

namespace {

constexpr const char* startedBySarus = "This program is started by `sarus`";

/// Removes the number from the list. False if it is missing or a standard stream.
bool take(int fd, std::vector<int>& inherited) {
    return fd > STDERR_FILENO && std::erase(inherited, fd) == 1;
}

}  // namespace

engine::StarterRequest receiveRequest(int fd, std::vector<int>& inherited) {
    if (!take(fd, inherited)) {
        throw Error(cat("The request's descriptor ", fd, " is not open"), startedBySarus);
    }
    const UniqueFd channel(fd);
    constexpr int needed = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & needed) != needed) {
        throw Error("The request is not a sealed memory file", startedBySarus);
    }
    struct stat status {};
    checkErrno(::fstat(fd, &status), "Failed to examine the request");
    if (status.st_size < 0 || static_cast<std::size_t>(status.st_size) > engine::maxRequestSize) {
        throw Error(cat("The request is larger than ", formatSize(engine::maxRequestSize)));
    }
    const auto size = static_cast<std::size_t>(status.st_size);
    auto request = engine::parseRequest(readBytes(fd, 0, size, "the request"));
    if (const auto* launch = std::get_if<engine::LaunchRequest>(&request);
        launch && !take(launch->imageFd, inherited)) {
        throw Error(cat("The image's descriptor ", launch->imageFd, " is not open"));
    }
    return request;
}

}  // namespace sarus::starter
