#include "base/capabilities.hpp"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.hpp"

namespace sarus {

CapabilitySets getCapabilities() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    checkErrno(::syscall(SYS_capget, &header, data), "Failed to read the capabilities");
    return {.effective = std::uint64_t{data[1].effective} << 32U | data[0].effective,
            .permitted = std::uint64_t{data[1].permitted} << 32U | data[0].permitted};
}

void setCapabilities(const CapabilitySets& sets) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    for (unsigned half = 0; half < 2; ++half) {
        data[half].effective = static_cast<std::uint32_t>(sets.effective >> (32U * half));
        data[half].permitted = static_cast<std::uint32_t>(sets.permitted >> (32U * half));
    }
    checkErrno(::syscall(SYS_capset, &header, data), "Failed to set the capabilities");
}

}  // namespace sarus
