// Runs a command in a mount namespace of its own in which things are as on other nodes. See `usage`.
//
// Tests start some thousand commands in it, and some need it before anything else is built: it is small,
// starts no process of its own, and needs the C library alone.

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

namespace {

constexpr const char* usage =
    "usage: sandbox [OPTIONS] -- COMMAND...\n"
    "   --fuse             /dev/fuse is open to everybody, as on most distributions\n"
    "   --closed-fuse      /dev/fuse is root's alone\n"
    "   --no-fuse          /dev/fuse is not there at all\n"
    "   --hide-unified     no cgroup v2 tree beside the v1 hierarchies, so that crun starts without any "
    "help\n"
    "   --unified          /sys/fs/cgroup is a cgroup v2 tree, as on current distributions\n"
    "   --closed-run       /run is empty but for /run/containers, which only root may enter\n"
    "   --hidepid          users see no processes of others\n"
    "   --shared-root      / is a shared mount, as systemd makes it\n"
    "   --syslog SOCKET    /dev/log is this socket\n"
    "   --node COMMANDS    the shell's commands change further things, such as devices (after the options in "
    "front of\n"
    "                      this one)\n"
    "   --user NAME        run the command as this user, with the user's groups\n"
    "Needs root. Nothing outside of the namespace changes, and all is gone with the last process inside.\n";

constexpr int failure = 125;  // as env(1): of the sandbox itself, not of the command

[[noreturn]] void fail(const std::string& doing) {
    std::fprintf(stderr, "sandbox: %s: %s\n", doing.c_str(), std::strerror(errno));
    std::exit(failure);
}

void check(int result, const std::string& doing) {
    if (result < 0) {
        fail(doing);
    }
}

void mountAt(const std::string& source, const std::string& target, const char* type, unsigned long flags,
             const char* options = nullptr) {
    check(::mount(source.c_str(), target.c_str(), type, flags, options), "mount " + target);
}

void bind(const std::string& source, const std::string& target, unsigned long flags = 0) {
    mountAt(source, target, nullptr, MS_BIND | flags);
}

void emptyDirectory(const std::string& path) {
    mountAt("tmpfs", path, "tmpfs", 0, "mode=0755");
}

void makeDirectory(const std::string& path, mode_t mode = 0755) {
    check(::mkdir(path.c_str(), mode), path);
}

void makeFile(const std::string& path) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    check(file, path);
    ::close(file);
}

/// An empty directory on a filesystem that is reached by what is mounted from it alone.
class Aside {
public:
    // TMPDIR may be anything: it is the command's.
    Aside() : path("/tmp/sandbox-" + std::to_string(::getpid())) {
        makeDirectory(path);
        emptyDirectory(path);
    }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    ~Aside() {
        check(::umount2(path.c_str(), MNT_DETACH), path);
        check(::rmdir(path.c_str()), path);
    }
    std::string operator/(const char* name) const { return path + '/' + name; }

private:
    std::string path;
};

void replaceFuse(mode_t mode) {
    const Aside aside;
    const auto fuse = aside / "fuse";
    if (mode != 0) {
        check(::mknod(fuse.c_str(), S_IFCHR, makedev(10, 229)), fuse);
    } else {
        makeFile(fuse);
    }
    check(::chmod(fuse.c_str(), mode), fuse);
    bind(fuse, "/dev/fuse");
}

bool isMountPoint(const std::string& directory) {
    struct stat inside {};
    struct stat above {};
    return ::stat(directory.c_str(), &inside) == 0 && ::stat((directory + "/..").c_str(), &above) == 0 &&
           inside.st_dev != above.st_dev;
}

/// /dev itself is everybody's: one of the sandbox's own above it.
void replaceLog(const std::string& log) {
    {
        const Aside layers;
        for (const auto* const name : {"upper", "work", "dev"}) {
            makeDirectory(layers / name);
        }
        const auto options = "lowerdir=/dev,upperdir=" + (layers / "upper") + ",workdir=" + (layers / "work");
        const auto dev = layers / "dev";
        mountAt("overlay", dev, "overlay", 0, options.c_str());
        for (const auto* const inside : {"/shm", "/pts", "/mqueue"}) {
            if (isMountPoint(std::string("/dev") + inside)) {
                bind(std::string("/dev") + inside, dev + inside, MS_REC);
            }
        }
        ::unlink((dev + "/log").c_str());
        makeFile(dev + "/log");
        bind(dev, "/dev", MS_REC);
    }
    bind(log, "/dev/log");
}

void closeRun() {
    emptyDirectory("/run");
    makeDirectory("/run/containers", 0700);
}

void runShell(const char* commands) {
    const auto child = ::fork();
    check(child, "fork");
    if (child == 0) {
        ::execlp("sh", "sh", "-c", commands, nullptr);
        ::_exit(127);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) {
        std::exit(failure);
    }
}

void become(const char* name) {
    const auto* const account = ::getpwnam(name);
    if (account == nullptr) {
        std::fprintf(stderr, "sandbox: there is no user %s\n", name);
        std::exit(failure);
    }
    check(::initgroups(name, account->pw_gid), "initgroups");
    check(::setresgid(account->pw_gid, account->pw_gid, account->pw_gid), "setresgid");
    check(::setresuid(account->pw_uid, account->pw_uid, account->pw_uid), "setresuid");
}

/// Options without a value.
bool apply(const std::string& option) {
    if (option == "--fuse") {
        replaceFuse(0666);
    } else if (option == "--closed-fuse") {
        replaceFuse(0600);
    } else if (option == "--no-fuse") {
        replaceFuse(0);
    } else if (option == "--hide-unified") {
        if (::access("/sys/fs/cgroup/unified", F_OK) == 0) {
            emptyDirectory("/sys/fs/cgroup/unified");
        }
    } else if (option == "--unified") {
        mountAt("cgroup2", "/sys/fs/cgroup", "cgroup2", 0);
    } else if (option == "--closed-run") {
        closeRun();
    } else if (option == "--hidepid") {
        mountAt("proc", "/proc", "proc", 0, "hidepid=2");
    } else if (option == "--shared-root") {
        mountAt("none", "/", nullptr, MS_REC | MS_SHARED);
    } else {
        return false;
    }
    return true;
}

}  // namespace

int main(int /*argc*/, char** argv) {
    const auto umask = ::umask(022);
    check(::unshare(CLONE_NEWNS), "unshare");
    mountAt("none", "/", nullptr, MS_REC | MS_PRIVATE);
    const char* user = nullptr;
    char** word = argv + 1;
    for (; *word != nullptr && std::strcmp(*word, "--") != 0; ++word) {
        const std::string option = *word;
        if (apply(option)) {
            continue;
        }
        const char* const value = word[1];
        if (value != nullptr && option == "--syslog") {
            replaceLog(value);
        } else if (value != nullptr && option == "--node") {
            runShell(value);
        } else if (value != nullptr && option == "--user") {
            user = value;
        } else {
            std::fprintf(stderr, "sandbox: unknown option '%s'\n%s", *word, usage);
            return failure;
        }
        ++word;
    }
    if (*word == nullptr || *++word == nullptr) {
        std::fputs(usage, stderr);
        return failure;
    }
    if (user != nullptr) {
        become(user);
    }
    ::umask(umask);
    ::execvp(*word, word);
    const int error = errno;
    std::fprintf(stderr, "sandbox: %s: %s\n", *word, std::strerror(error));
    return error == ENOENT ? 127 : 126;
}
