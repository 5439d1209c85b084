#include "starter/supervise/supervision.hpp"

#include <sys/prctl.h>

#include <utility>

#include "base/error.hpp"
#include "starter/entry/termination.hpp"
#include "starter/supervise/stream_relay.hpp"

namespace sarus::starter {

int supervise(Session& session, Supervised supervised) {
    const auto& credentials = session.credentials;
    auto& [invocation, remains, watched, spared, reaped, ended] = supervised;
    StreamRelay relay(credentials);
    checkErrno(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "Failed to become the container's subreaper");
    if (const int number = takePendingTermination(); number != 0) {
        return 128 + number;
    }
    session.audit.started();
    Janitor janitor(credentials, remains, watched.program, session.audit);
    session.audit.handOver();
    invocation.janitor = janitor.control();
    auto runtime = startRuntime(invocation);
    session.timer.done("Starting the OCI runtime");
    remains.deviceCgroup.reset();  // the monitor needs none of its descriptors
    dropToMonitor(credentials, runtime.pid());
    const auto end = watchRuntime(std::move(runtime), reaped, watched);
    session.timer.done("The container");
    ended(end);
    spared.insert(spared.end(), {janitor.pid(), relay.pid()});
    reapLeftovers(reaped, spared);  // before the janitor removes their cgroup
    janitor.finish(end.status.shellStatus());
    relay.finish();
    return exitStatusOf(end, invocation.program.path);
}

}  // namespace sarus::starter
