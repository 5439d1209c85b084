#include <fcntl.h>
#include <linux/fuse.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <latch>
#include <thread>

#include "base/begin_process.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "squashfs/server/chores.hpp"
#include "squashfs/server/confinement.hpp"
#include "squashfs/server/fuse_mount.hpp"
#include "squashfs/server/image.hpp"
#include "squashfs/server/options.hpp"
#include "squashfs/server/session.hpp"
#include "squashfs/superblock.hpp"

namespace sarus::squashfs {
namespace {

constexpr const char* help = R"(Usage: sarus-squashfs [-f] [-o OPTION[,OPTION...]] IMAGE MOUNTPOINT

Mounts a squashfs image, or that in a SIF file, through FUSE, read-only. /dev/fd/N as MOUNTPOINT serves
the mount of a FUSE descriptor that the caller has opened and mounted.

  -f                  stay in the foreground
  -o uid=N, gid=N     show all files with this owner
  -o allow_other      let other users use the mount
  -o cache=N          MiB of decompressed contents to keep (default 8)
  -o metadata_cache=N MiB of decompressed metadata to keep (default 8)
  -o threads=N        threads that answer requests
  -o readahead=N      blocks to decompress ahead (default 8)
  -o ready_fd=N       write a byte to this descriptor when the mount can be used
  -h, --help          show this help
  -V, --version       show the version
)";

constexpr std::chrono::seconds idlePause{2};

UniqueFd openImage(const std::string& path) {
    const auto number = descriptorOf(path);
    // Another open file of the same image could be refused where this one is not.
    return number ? UniqueFd(checkErrno(::fcntl(*number, F_DUPFD_CLOEXEC, 3), cat("Failed to use ", path)))
                  : openFile(path, O_RDONLY | O_NONBLOCK);
}

std::uint32_t processors() {
    cpu_set_t set;
    return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<std::uint32_t>(CPU_COUNT(&set)) : 1;
}

/// A descriptor of the same mount for one thread, so that threads do not wait for each other in the kernel.
/// Falls back to the same one where /dev/fuse cannot be opened.
UniqueFd cloneDevice(int device) {
    UniqueFd clone(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    auto original = static_cast<std::uint32_t>(device);
    if (!clone || ::ioctl(clone.get(), FUSE_DEV_IOC_CLONE, &original) != 0) {
        return UniqueFd(checkErrno(::fcntl(device, F_DUPFD_CLOEXEC, 3), "Failed to copy a descriptor"));
    }
    return clone;
}

/// Forks. Returns in the child, with the descriptor that reports readiness; the parent waits for that and
/// exits.
UniqueFd goToBackground() {
    std::array<int, 2> ends{};
    checkErrno(::pipe2(ends.data(), O_CLOEXEC), "Failed to create a pipe");
    UniqueFd in(ends[0]);
    UniqueFd out(ends[1]);
    const pid_t child = checkErrno(::fork(), "Failed to create a process");
    if (child == 0) {
        ::setsid();
        return out;
    }
    out.reset();
    char byte = 0;
    ssize_t count = 0;
    while ((count = ::read(in.get(), &byte, 1)) < 0 && errno == EINTR) {
    }
    if (count == 1) {
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);  // it has printed why
    ::_exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 1);
}

void detachStandardStreams() {
    const auto null = openFile("/dev/null", O_RDWR);
    for (const int stream : {0, 1, 2}) {
        ::dup2(null.get(), stream);
    }
}

/// Unmounts when a signal asks for it; the server goes on until nobody uses the mount. Never returns.
[[noreturn]] void waitForSignals(const sigset_t& signals, const std::string& mountPoint, bool ownMount) {
    for (;;) {
        siginfo_t info{};
        if (::sigwaitinfo(&signals, &info) < 0) {
            continue;
        }
        if (!ownMount || ::umount2(mountPoint.c_str(), MNT_DETACH) != 0) {
            ::_exit(0);  // fusermount3 unmounts; or somebody has unmounted
        }
    }
}

void serve(const Options& options) {
    UniqueFd imageFd = openImage(options.image);
    const auto imageName = descriptorOf(options.image) ? "the image" : printable(options.image);
    const auto offset = readSquashfsSuperblock(imageFd.get(), options.image).offset;
    UniqueFd ready(options.readyFd);
    const bool mounts = options.fuseFd < 0;
    const auto mountPoint = options.mountPoint.starts_with('/')
                                ? options.mountPoint
                                : cat(workingDirectory(), '/', options.mountPoint);
    if (mounts && !options.foreground) {
        ready = goToBackground();
    }
    // Threads that allocate seldom wait for each other; arenas would multiply the memory.
    ::mallopt(M_ARENA_MAX, 1);
    Image image(std::move(imageFd), imageName, options.caches, offset);
    FuseMount mount;
    if (mounts) {
        mount = mountFuse(mountPoint, options.allowOther);
    } else {
        mount.device.reset(options.fuseFd);
    }
    if (mounts && !options.foreground) {
        detachStandardStreams();
        checkErrno(::chdir("/"), "Failed to leave the directory");
    }
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
        if (!isIgnoredByCaller(number)) {
            ::sigaddset(&signals, number);
        }
    }
    if (mounts) {
        ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    }

    const auto workers = options.threads != 0 ? options.threads : std::clamp(processors(), 4U, 16U);
    const auto helpers = std::clamp(processors(), 2U, 8U);
    Chores chores;
    // What was read is in the kernel's page cache: a job that computes needs no second copy.
    chores.whenIdle(idlePause, [&image] {
        image.forgetBlocks();
        ::malloc_trim(0);
    });
    Session session(
        image, chores,
        {.uid = options.uid, .gid = options.gid, .blocksAhead = options.readahead, .onReady = [&] {
             if (ready) {
                 const char byte = 1;
                 [[maybe_unused]] const auto sent = ::write(ready.get(), &byte, 1);
                 ready.reset();
             }
         }});
    // A thread begins with system calls that the filter forbids.
    const auto threads = helpers + workers - (mounts ? 0 : 1);
    std::latch started(threads);
    std::latch start(1);
    const auto launch = [&](auto work) {
        std::thread([&started, &start, work = std::move(work)] {
            started.count_down();
            start.wait();
            work();
        }).detach();
    };
    for (std::uint32_t i = 0; i < helpers; ++i) {
        launch([&] { chores.work(); });
    }
    for (std::uint32_t i = mounts ? 0 : 1; i < workers; ++i) {
        launch([&session, device = cloneDevice(mount.device.get()).release()] {
            session.serve(device);
            ::_exit(0);  // unmounted
        });
    }
    started.wait();
    constexpr std::size_t forWork = std::size_t{512} << 20U;
    limitResources(options.caches.blocks + options.caches.metadata + forWork);
    confine(mounts && !mount.fusermount);
    start.count_down();
    if (mounts) {
        waitForSignals(signals, mountPoint, !mount.fusermount);
    }
    session.serve(mount.device.get());
    ::_exit(0);
}

}  // namespace
}  // namespace sarus::squashfs

int main(int argc, char** argv) {
    using namespace sarus;
    beginProcess(BlockedSignals::keep);  // the starter blocks them: the mount must outlive its users
    try {
        const auto options = squashfs::parseOptions({argv + 1, argv + std::max(argc, 1)});
        if (options.help) {
            printLine(trim(squashfs::help));
        } else if (options.version) {
            printLine(cat("sarus-squashfs ", SARUS_VERSION));
        } else {
            squashfs::serve(options);
        }
        return 0;
    } catch (const Error& error) {
        printError(error);
    } catch (const std::exception& error) {
        printError(cat("sarus-squashfs: ", error.what()));
    }
    return 1;
}
