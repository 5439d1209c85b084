#include "base/signal_name.hpp"

#include <csignal>

namespace sarus {

std::string_view signalName(int number) noexcept {
    switch (number) {
#define SARUS_NAME(name) \
    case SIG##name:      \
        return #name;
        SARUS_NAME(HUP)
        SARUS_NAME(INT)
        SARUS_NAME(QUIT)
        SARUS_NAME(ILL)
        SARUS_NAME(TRAP)
        SARUS_NAME(ABRT)
        SARUS_NAME(BUS)
        SARUS_NAME(FPE)
        SARUS_NAME(KILL)
        SARUS_NAME(USR1)
        SARUS_NAME(SEGV)
        SARUS_NAME(USR2)
        SARUS_NAME(PIPE)
        SARUS_NAME(ALRM)
        SARUS_NAME(TERM)
        SARUS_NAME(STKFLT)
        SARUS_NAME(CHLD)
        SARUS_NAME(CONT)
        SARUS_NAME(STOP)
        SARUS_NAME(TSTP)
        SARUS_NAME(TTIN)
        SARUS_NAME(TTOU)
        SARUS_NAME(URG)
        SARUS_NAME(XCPU)
        SARUS_NAME(XFSZ)
        SARUS_NAME(VTALRM)
        SARUS_NAME(PROF)
        SARUS_NAME(WINCH)
        SARUS_NAME(POLL)
        SARUS_NAME(PWR)
        SARUS_NAME(SYS)
#undef SARUS_NAME
        default:
            return {};
    }
}

}  // namespace sarus
