#include "base/login_variables.hpp"

#include <unistd.h>

#include <cstdlib>

#include "base/error.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/name_service.hpp"

namespace sarus {

void addLoginVariables() {
    constexpr int keep = 0;
    ::setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", keep);
    if (hostVariable("HOME") && hostVariable("USER")) {
        return;
    }
    try {
        if (const auto account = findAccount(::geteuid())) {
            ::setenv("HOME", account->home.c_str(), keep);
            ::setenv("USER", account->name.c_str(), keep);
        }
    } catch (const Error& error) {
        logInfo("Environment", error.what());
    }
}

}  // namespace sarus
