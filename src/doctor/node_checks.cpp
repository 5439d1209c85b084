#include "doctor/node_checks.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/config_files.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "node/fuse.hpp"
#include "node/user_namespace_error.hpp"
#include "oci/cdi/cdi_spec.hpp"

namespace sarus::doctor {

namespace {

using Grade = Finding::Grade;

struct SharedFilesystem {
    long magic;
    std::string_view name;
};

constexpr std::array sharedFilesystems{
    SharedFilesystem{0x6969, "NFS"},        SharedFilesystem{0x0BD00BD0, "Lustre"},
    SharedFilesystem{0x47504653, "GPFS"},   SharedFilesystem{0x00C36400, "Ceph"},
    SharedFilesystem{0x19830326, "BeeGFS"}, SharedFilesystem{0x7461636f, "OCFS2"}};

/// 0, or the errno with which the kernel refuses a user namespace.
int tryUserNamespace() {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(::unshare(CLONE_NEWUSER) == 0 ? 0 : errno);
    }
    int status = 0;
    return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                                   : EAGAIN;
}

}  // namespace

Finding checkUserNamespaces(Grade otherwise) {
    const int error = tryUserNamespace();
    if (error == 0) {
        return {"user namespaces", Grade::ok, "allowed"};
    }
    const auto reason = node::userNamespaceError("The kernel refuses a user namespace", error);
    return {"user namespaces", otherwise, reason.what(), node::userNamespaceCure()};
}

Finding checkFuse(Grade otherwise) {
    const auto device = node::openFuseDevice();
    if (!device.fd) {
        return {"FUSE", otherwise, device.whyNot, "modprobe fuse && chmod 0666 /dev/fuse (as root)"};
    }
    return {"FUSE", Grade::ok, "/dev/fuse can be opened"};
}

Finding checkCdi(const std::vector<std::string>& directories, std::string_view useWith) {
    constexpr std::size_t largestFile = 1U << 24U;
    std::string devices;
    for (const auto& directory : directories) {
        for (const auto& file : filesIn(directory, {".json", ".yaml"})) {
            try {
                const auto spec = oci::parseCdiSpec(readFile(file, largestFile), file);
                for (const auto& device : spec.devices) {
                    devices += cat(devices.empty() ? "" : " ", spec.kind, '=', device.name);
                }
            } catch (const Error& error) {
                return {"CDI devices", Grade::warning, error.what(),
                        cat("nvidia-ctk cdi generate --output=", printable(file),
                            ", or the tool of the device's vendor (as root)")};
            }
        }
    }
    if (devices.empty()) {
        return {"CDI devices", Grade::note,
                directories.empty() ? "the configuration disables CDI"
                                    : cat("no CDI file in ", join(directories, " or "))};
    }
    return {"CDI devices", Grade::ok, cat(useWith, ' ', devices)};
}

std::vector<std::string> filesIn(const std::string& directory,
                                 std::initializer_list<std::string_view> endings) {
    if (!isDirectory(directory)) {
        return {};
    }
    const auto opened = openFile(directory, O_PATH | O_DIRECTORY);
    return listFiles(opened.get(), directory, endings);
}

std::string existingPart(std::string path) {
    while (path.size() > 1 && !pathExists(path)) {
        path.resize(path.rfind('/'));
    }
    return path.empty() ? "/" : path;
}

long filesystemOf(const std::string& path) {
    struct statfs status {};
    return ::statfs(path.c_str(), &status) == 0 ? static_cast<long>(status.f_type) : 0;
}

std::string_view sharedFilesystem(long magic) {
    const auto* const found =
        std::find_if(sharedFilesystems.begin(), sharedFilesystems.end(),
                     [&](const SharedFilesystem& shared) { return shared.magic == magic; });
    return found == sharedFilesystems.end() ? std::string_view{} : found->name;
}

std::string_view sharedFilesystemOf(const std::string& path) {
    return sharedFilesystem(filesystemOf(existingPart(path)));
}

std::optional<std::uint64_t> freeSpace(const std::string& path) {
    struct statvfs space {};
    if (::statvfs(existingPart(path).c_str(), &space) != 0) {
        return std::nullopt;
    }
    return std::uint64_t{space.f_bavail} * space.f_frsize;
}

}  // namespace sarus::doctor
