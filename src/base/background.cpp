#include "base/background.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <exception>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/subprocess.hpp"

namespace sarus {

namespace {

void detach(const char* name) {
    ::setsid();
    ::prctl(PR_SET_NAME, name);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGTSTP, SIGUSR1, SIGUSR2, SIGALRM,
                             SIGVTALRM, SIGPROF, SIGIO}) {
        ::signal(signal, SIG_IGN);
    }
    const auto null = openFile("/dev/null", O_RDWR);
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
        ::dup2(null.get(), stream);
    }
}

}  // namespace

void startInBackground(const char* name, const std::function<int()>& body) {
    const pid_t first = checkErrno(::fork(), "Failed to create a process");
    if (first == 0) {
        const pid_t second = ::fork();  // so that it is no child of this process
        if (second != 0) {
            ::_exit(second < 0 ? 1 : 0);
        }
        int status = 1;
        try {
            detach(name);
            status = body();
        } catch (const std::exception&) {
            // Those who wait for this process see its end.
        }
        ::_exit(status);
    }
    if (!Child(first).wait().ok()) {
        throw Error("Failed to create a process");
    }
}

}  // namespace sarus
