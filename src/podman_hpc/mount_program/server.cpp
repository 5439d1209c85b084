#include "podman_hpc/mount_program/server.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/host_variable.hpp"
#include "base/mount_table.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

using served_image::Answer;
using served_image::Server;

namespace {

/// The regular file $LOG; else empty.
UniqueFd openLog() {
    const auto log = nonEmptyHostVariable("LOG");
    if (!log) {
        return UniqueFd();
    }
    constexpr int flags = O_RDWR | O_APPEND | O_CREAT | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
    UniqueFd file(::open(log->c_str(), flags, 0600));
    struct stat status {};
    return file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) ? std::move(file)
                                                                                : UniqueFd();
}

}  // namespace

std::unique_ptr<Server> makeServer(const std::string& program, std::vector<std::string> arguments,
                                   std::vector<int> descriptors, UniqueFd fuse,
                                   const std::function<void()>& enter) {
    const auto log = openLog();
    arguments.insert(arguments.begin(), program);
    const auto fromRoot = [&] {
        checkErrno(::chdir("/"), "Failed to change to the directory /");
        enter();
    };
    return std::make_unique<Server>(Server::Setup{.program = program,
                                                  .args = std::move(arguments),
                                                  .descriptors = std::move(descriptors),
                                                  .searchPath = "/usr/local/bin:/usr/bin:/bin",
                                                  .enter = fromRoot,
                                                  .output = log.get()},
                                    std::move(fuse));
}

std::string failureOf(Server& server, const std::string& program) {
    server.release();
    const auto patience = patienceWithServers();
    switch (server.waitForAnswer(patience)) {
        case Answer::yes:
            return "";
        case Answer::late:
            return cat(program, " did not answer within ", patience.count(), " s");
        case Answer::none:
            break;
    }
    const auto output = server.endAndGetOutput();
    return cat(program, ": ", output.empty() ? "it ended without a message" : output);
}

std::chrono::seconds patienceWithServers() {
    constexpr std::uint64_t usual = 30;
    const auto seconds = parseNumber(hostVariable("PODMANHPC_MOUNT_TIMEOUT").value_or(""));
    return std::chrono::seconds(seconds && *seconds > 0 && *seconds < 86400 ? *seconds : usual);
}

void hideMounts(const std::vector<std::string>& directories) {
    for (const auto& mount : readMountTable()) {
        const auto isIn = [&](const std::string& directory) {
            return mount.mountPoint == directory || mount.mountPoint.starts_with(directory + "/");
        };
        if (std::any_of(directories.begin(), directories.end(), isIn)) {
            // Takes those below along, which then fail. One that stays keeps a container's files longer.
            ::umount2(mount.mountPoint.c_str(), MNT_DETACH);
        }
    }
}

}  // namespace sarus::podman_hpc
