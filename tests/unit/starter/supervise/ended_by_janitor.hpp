#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <ctime>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/process_tree.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "starter/supervise/janitor.hpp"

namespace sarus::test {

/// A child that waits until it is ended. `prepare` gives it its identity; it waits for that.
template <typename Prepare>
pid_t startPaused(Prepare prepare) {
    int ready[2];
    checkErrno(::pipe(ready), "pipe");
    const pid_t pid = ::fork();
    ::close(ready[pid == 0 ? 0 : 1]);
    if (pid == 0) {
        prepare();
        ::close(ready[1]);
    }
    while (pid == 0) {
        ::pause();
    }
    char none = 0;
    [[maybe_unused]] const auto count = ::read(ready[0], &none, 1);
    ::close(ready[0]);
    return pid;
}

/// Whether a janitor ends the process `program`, which is named by the pid file of a runtime that was killed
/// with its starter. `age`: of that file, in seconds.
inline bool endedByJanitor(const starter::Credentials& credentials, pid_t program, time_t age = 0) {
    const TemporaryDirectory bundle;
    starter::RuntimeInvocation invocation{
        .program = {.path = "/bin/false", .kind = engine::OciRuntime::crun},
        .runtimeRoot = bundle.path(),
        .bundleDir = bundle.path(),
        .containerName = "job",
    };
    const starter::PidFile file(invocation);
    const auto path = bundle / "pid";
    writeAll(openFile(path, O_WRONLY).get(), cat(program), path);
    const auto then = std::time(nullptr) - age;
    const std::array<timespec, 2> times{{{then, 0}, {then, 0}}};
    if (age != 0) {
        checkErrno(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), "utimensat");
    }
    {
        starter::Remains none;
        const starter::Janitor janitor(credentials, none, &file);
        const Process ended(0);
        writeAll(janitor.control(), {reinterpret_cast<const char*>(&ended), sizeof ended}, "the janitor");
    }
    return !Process(program).isRunning();
}

}  // namespace sarus::test
