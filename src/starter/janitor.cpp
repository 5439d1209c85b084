#include "starter/janitor.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "starter/entry.hpp"
#include "starter/process_tree.hpp"

namespace sarus::starter {

namespace {

constexpr int pollMilliseconds = 5;
constexpr int graceMilliseconds = 500;  // for a payload which ends on SIGHUP
constexpr int forceMilliseconds = 3000;

/// Nothing of the container may depend on how long the janitor lives: no stream, no lock, no descriptor of the job.
void keepOnly(const std::vector<int>& kept) {
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        ::dup2(null, fd);
    }
    for (const auto& entry : openDescriptors()) {
        if (entry > STDERR_FILENO && std::find(kept.begin(), kept.end(), entry) == kept.end()) {
            ::close(entry);
        }
    }
}

bool endsWithin(const Process& runtime, int milliseconds) {
    for (int waited = 0; runtime.isRunning(); waited += pollMilliseconds) {
        if (waited >= milliseconds) {
            return false;
        }
        ::usleep(pollMilliseconds * 1000);
    }
    return true;
}

/// The runtime of a container got SIGHUP when the starter died, and passes it on. That of a command beside a container did not:
/// it would end before what the command has started, which could not be found any more then.
void endContainer(const Process& runtime, bool graceful) {
    if (graceful && endsWithin(runtime, graceMilliseconds)) {
        return;
    }
    killDescendants(runtime, 50);
    if (!endsWithin(runtime, forceMilliseconds)) {
        runtime.signal(SIGKILL);
    }
}

[[noreturn]] void runJanitor(int control, const Process& runtime, const std::string& stateDirectory, bool privileged,
                             std::optional<DeviceCgroup>& deviceCgroup, std::optional<RecordFile>& record) {
    if (!stateDirectory.empty()) {
        sweepDeadContainers(stateDirectory.substr(0, stateDirectory.rfind('/')));  // here nobody has to wait for it
    }
    char message = 0;
    ssize_t count = 0;
    while ((count = ::read(control, &message, 1)) < 0 && errno == EINTR) {
    }
    if (count != 1) {
        endContainer(runtime, !stateDirectory.empty());
    }
    try {
        if (!stateDirectory.empty()) {
            removeTree(stateDirectory);
        }
    } catch (const Error&) {
        // It has no stream to complain to; the next start with this name says what is in the way.
    }
    deviceCgroup.reset();
    record.reset();
    if (privileged && !stateDirectory.empty()) {  // the user's directory, if this was the last container in it
        ::rmdir(stateDirectory.substr(0, stateDirectory.rfind('/')).c_str());
    }
    ::_exit(0);
}

}  // namespace

Janitor Janitor::start(const Credentials& credentials, pid_t runtime, std::string stateDirectory,
                       std::optional<DeviceCgroup> deviceCgroup, std::optional<RecordFile> record) {
    std::array<int, 2> ends{};
    checkErrno(::pipe2(ends.data(), O_CLOEXEC), "Failed to create a pipe");
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    const Process process(runtime);  // here, where nobody else can reap it: later its number may be a stranger's
    const pid_t pid = checkErrno(::fork(), "Failed to create the janitor process");
    if (pid == 0) {
        ::setpgid(0, 0);
        ::prctl(PR_SET_NAME, "sarus-janitor", 0, 0, 0);
        std::vector<int> kept{reader.get()};
        if (deviceCgroup) {
            deviceCgroup->appendDescriptors(kept);
        }
        if (record) {
            kept.push_back(record->descriptor());
        }
        keepOnly(kept);
        // Directories of cgroups are read-only for their owner, and the runtime may be hidden (proc(5), "hidepid").
        limitCapabilities(credentials, {CAP_KILL, CAP_DAC_OVERRIDE, CAP_SYS_PTRACE});
        runJanitor(reader.get(), process, stateDirectory, credentials.privileged(), deviceCgroup, record);
    }
    if (deviceCgroup) {
        deviceCgroup->release();
    }
    if (record) {
        record->release();
    }
    return Janitor(pid, std::move(writer));
}

void Janitor::finish() {
    if (id > 0) {
        [[maybe_unused]] const auto written = ::write(control.get(), "d", 1);
        control.reset();
        while (::waitpid(id, nullptr, 0) < 0 && errno == EINTR) {
        }
        id = -1;
    }
}

}  // namespace sarus::starter
