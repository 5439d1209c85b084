#include "node/selinux.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace sarus::node {

namespace {

bool isDenied(int error) {
    return error == EACCES || error == EPERM;
}

}  // namespace

void checkSelinuxLabel(const std::optional<std::string>& label, const char* key) {
    constexpr const char* question = "/sys/fs/selinux/context";
    if (!label) {
        return;
    }
    const auto shown = cat("The SELinux label '", printable(*label), "' (`", key, "` in sarus.json) ");
    if (label->find_first_of("\"\n") != std::string::npos) {
        throw Error(cat(shown, "has a quotation mark or a line break in it"),
                    "Labels look like system_u:system_r:container_t:s0");
    }
    const UniqueFd file(::open(question, O_RDWR | O_CLOEXEC));
    if (!file && isDenied(errno)) {
        return;
    }
    if (!file) {
        throw Error(cat(shown, "cannot be used: SELinux is not enabled on this node, there is no ", question),
                    "Remove the key, or start the kernel of the node with SELinux")
            .setId("selinux-not-enabled");
    }
    if (::write(file.get(), label->c_str(), label->size() + 1) < 0 && !isDenied(errno)) {
        throw Error(cat(shown, "is not valid in the policy of this node"),
                    "The policy has to define its user, role, type and level");
    }
}

std::string withMountLabel(std::string options, const std::optional<std::string>& label) {
    return label ? cat(options, options.empty() ? "" : ",", "context=\"", *label, '"') : std::move(options);
}

}  // namespace sarus::node
