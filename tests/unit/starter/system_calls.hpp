#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace sarus::test {

/// Stands between the starter and the kernel as long as it lives, one at a time: the linker leads the calls
/// of unit_starter here (tests/CMakeLists.txt), so that the programs themselves have nothing of it. Every
/// call is written down and can be made to fail. What needs root is only pretended: mounts, owners, device
/// nodes, identities, namespaces and the loop driver. Directories and files are made. The caller has the ids
/// 1000 and 100, and the test's own files seem to be root's.
class SystemCalls {
public:
    /// Paths below `directory` are shown relative to it. For the starter, the root of the host is its
    /// subdirectory "host" where the root is opened, and so are the id maps of this process.
    explicit SystemCalls(std::string directory);
    SystemCalls(const SystemCalls&) = delete;
    SystemCalls& operator=(const SystemCalls&) = delete;
    ~SystemCalls();

    /// In their order, as in "mount overlay on rootfs (lowerdir=...)".
    const std::vector<std::string>& made() const { return calls; }
    /// The targets of what is mounted now.
    const std::vector<std::string>& mounted() const { return mounts; }
    bool isRoot() const { return identity == 0; }
    /// Calls whose text begins like this fail from now on.
    void refuse(const std::string& beginning, int error) { refused[beginning] = error; }
    /// The call that will be number `index`, from 0 on, fails.
    void refuseAt(std::size_t index, int error) { refusedAt = {index, error}; }
    void forget() { calls.clear(); }
    /// All files have this fs-verity digest (SHA-256).
    void enableVerity(std::string digest) { verity = std::move(digest); }

    // What the linker leads here. The results are those of the system calls.
    int mount(const char* source, const char* target, const char* type, unsigned long flags,
              const char* data);
    int unmount(const char* target);
    int openTree(int source);
    int setMountAttributes(const std::string& target, unsigned long set);
    int moveMount(int from, int to);
    int makeNode(int directory, const char* name, mode_t mode, dev_t number);
    int control(int fd, unsigned long request, void* argument);
    static constexpr int ordinaryFile = -2;  ///< the result of open() for what is left to the kernel
    int open(const std::string& path, int flags, mode_t mode);
    void show(int fd, struct stat& status) const;
    void become(uid_t user) { identity = user; }
    /// Writes the call down. True, with errno, if it is to fail.
    bool isRefused(const std::string& text);
    std::string nameOf(int directory, const char* name) const;

    static SystemCalls* active;

private:
    struct Loop {
        UniqueFd image;
        std::uint64_t sequence = 0;
        unsigned flags = 0;
    };

    std::string nameOf(std::string path) const;
    int openLoop(const std::string& name, unsigned number);
    std::optional<unsigned> loopOf(int fd) const;
    int bindLoop(unsigned number, int image, unsigned flags);

    std::string root;
    UniqueFd workingDirectory;
    std::vector<std::string> calls;
    std::vector<std::string> mounts;
    std::map<std::string, int> refused;
    std::optional<std::pair<std::size_t, int>> refusedAt;
    std::string verity;
    uid_t identity = 0;
    std::map<unsigned, UniqueFd> loopNodes;
    std::map<unsigned, Loop> loops;
    std::uint64_t sequences = 0;
};

/// Runs `work` once to see which calls it makes, and then once for each call, which fails with EIO. `check`
/// gets the text of that call and what was thrown, or nullptr. In any case the descriptors are closed and the
/// identity is root's again. `prepare` makes the directory that SystemCalls works in, anew each time.
void failEachCall(
    const std::function<std::string()>& prepare, const std::function<void()>& work,
    const std::function<void(const std::string& call, const Error* error, const SystemCalls& calls)>& check);

}  // namespace sarus::test
