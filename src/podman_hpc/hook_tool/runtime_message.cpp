#include "podman_hpc/hook_tool/runtime_message.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::podman_hpc {

namespace {

bool isHidden(int stream) {
    struct stat status {};
    return ::fstat(stream, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
}

/// The runtime's log, which Podman calls "oci-log". Throws Error.
UniqueFd openLogOf(const std::string& descriptors) {
    for (int number = STDERR_FILENO + 1; number < 16; ++number) {
        const auto name = cat(descriptors, number);
        std::array<char, PATH_MAX> target{};
        const auto length = ::readlink(name.c_str(), target.data(), target.size());
        if (length > 0 &&
            std::string_view(target.data(), static_cast<std::size_t>(length)).ends_with("/oci-log")) {
            return openFile(name, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY);
        }
    }
    throw Error("the runtime has no log");
}

}  // namespace

void tellPodman(pid_t runtime, std::string_view reason) noexcept {
    try {
        if (!isHidden(STDERR_FILENO)) {
            return;
        }
        const auto descriptors = cat("/proc/", runtime, "/fd/");
        const auto log = openLogOf(descriptors);
        const auto stream = openFile(cat(descriptors, STDERR_FILENO), O_WRONLY | O_NONBLOCK | O_NOCTTY);
        oci::JsonWriter entry;
        entry.beginObject().member("msg", reason).member("level", "error").endObject();
        writeAll(log.get(), cat(entry.text(), '\n'), "the runtime's log");
        writeAll(stream.get(), reason, "the runtime's standard error");
    } catch (const std::exception&) {
        // the log of failures says it, too
    }
}

}  // namespace sarus::podman_hpc
