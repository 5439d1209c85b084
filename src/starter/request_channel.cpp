#include "starter/request_channel.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace sarus::starter {

namespace {

bool isInherited(int fd, const std::vector<int>& inherited) {
    return fd > STDERR_FILENO && std::binary_search(inherited.begin(), inherited.end(), fd);
}

std::string readWhole(int fd, std::size_t size) {
    std::string bytes(size, '\0');
    std::size_t done = 0;
    while (done < size) {
        const auto count = ::pread(fd, bytes.data() + done, size - done, static_cast<off_t>(done));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        checkErrno(count, "Failed to read the launch request");
        if (count == 0) {
            throw Error("The launch request is shorter than its size");
        }
        done += static_cast<std::size_t>(count);
    }
    return bytes;
}

engine::LaunchRequest receive(int fd, const std::vector<int>& inherited) {
    if (!isInherited(fd, inherited)) {
        throw Error(cat("The launch request's descriptor ", fd, " is not open"), "This program is started by `sarus run`");
    }
    const UniqueFd channel(fd);
    constexpr int needed = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & needed) != needed) {
        throw Error("The launch request is not a sealed memory file", "This program is started by `sarus run`");
    }
    struct stat status {};
    checkErrno(::fstat(fd, &status), "Failed to examine the launch request");
    if (status.st_size < 0 || static_cast<std::size_t>(status.st_size) > engine::maxLaunchRequestSize) {
        throw Error(cat("The launch request is larger than ", formatSize(engine::maxLaunchRequestSize)));
    }
    return engine::parseLaunchRequest(readWhole(fd, static_cast<std::size_t>(status.st_size)));
}

}  // namespace

engine::LaunchRequest receiveExecRequest(int fd, const std::vector<int>& inherited) {
    return receive(fd, inherited);
}

engine::LaunchRequest receiveRequest(int fd, const std::vector<int>& inherited) {
    auto request = receive(fd, inherited);
    if (!isInherited(request.imageFd, inherited) || request.imageFd == fd) {
        throw Error(cat("The image's descriptor ", request.imageFd, " is not open"));
    }
    return request;
}

}  // namespace sarus::starter
