#include "hooks/kit/linker_cache/library_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "container_root/container_view.hpp"
#include "container_root/root_files.hpp"
#include "hooks/kit/elf.hpp"
#include "hooks/kit/linker_cache/ld_cache.hpp"

namespace sarus::hooks {

namespace {

/// The state of a file, if it will reveal any later change of the file.
std::optional<FileState> settledState(const struct stat& status, dev_t device, const StampClock& clock) {
    return clock.isBeforeWork(status.st_ctim.tv_sec, status.st_ctim.tv_nsec)
               ? std::optional(fileStateOf(status, device))
               : std::nullopt;
}

void readFile(const LibraryFolder& folder, LibraryFile& file, const StampClock& clock) {
    struct stat status {};
    if (folder.known != nullptr && folder.known->knows(file.name) &&
        ::fstatat(folder.fd, file.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
        file.state = settledState(status, folder.device, clock);
        const auto* entry = file.state ? folder.known->find(file.name, *file.state) : nullptr;
        if (entry != nullptr) {
            file.library = entry->library;
            return;
        }
    }
    // The state from before the read: if the file changes meanwhile, it will not match.
    const auto fd = container_root::tryOpenFileAt(folder.fd, file.name.c_str(), status);
    if (!fd) {
        file.state.reset();
        return;
    }
    file.state = settledState(status, folder.device, clock);
    file.library = readLibrary(fd.get());
}

/// The processors available to this process, except the current one; empty if unknown.
cpu_set_t otherProcessors() {
    cpu_set_t processors;
    const int here = ::sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE || ::sched_getaffinity(0, sizeof processors, &processors) != 0) {
        CPU_ZERO(&processors);
    } else {
        CPU_CLR(static_cast<std::size_t>(here), &processors);
    }
    return processors;
}

/// The kernel makes a new thread wait for its creator's processor, and moves it to an idle one only after
/// milliseconds, by which time all work could be done.
void moveElsewhere(std::jthread& thread) {
    const auto processors = otherProcessors();
    if (CPU_COUNT(&processors) > 0) {
        ::pthread_setaffinity_np(thread.native_handle(), sizeof processors, &processors);
    }
}

}  // namespace

bool isLibraryName(std::string_view name) {
    const bool start = name.starts_with("lib") || name.starts_with("ld-") || name.starts_with("ld.so.") ||
                       name.starts_with("ld64.so.");
    // Package managers create these beside the real files while they work.
    const bool temporary = name.ends_with(".dpkg-new") || name.ends_with(".dpkg-tmp") ||
                           name.find(".#prelink#") != std::string_view::npos;
    return start && name.find(".so") != std::string_view::npos && !temporary;
}

std::string readLink(int directory, const std::string& name) {
    char target[PATH_MAX];
    const auto length = ::readlinkat(directory, name.c_str(), target, sizeof target);
    return {target, static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

std::optional<Library> readLibrary(int fd) {
    try {
        auto elf = readElf(fd, ElfDetail::soname);
        const auto flags = elf && elf->isDynamic ? ldCacheFlags(*elf) : std::nullopt;
        // A SONAME with a slash cannot name a file in the directory.
        if (!flags || (elf->soname && elf->soname->find('/') != std::string::npos)) {
            return std::nullopt;
        }
        return Library{std::move(elf->soname).value_or(""), *flags};
    } catch (const Error&) {
        return std::nullopt;  // the dynamic linker could not use it either
    }
}

void LibraryReader::add(LibraryFolder& folder) {
    const container_root::ContainerView view;
    const UniqueFd list(::openat(folder.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // Not readdir(3): short reads let the threads begin early.
    alignas(dirent64) std::array<char, 4096> buffer;
    ssize_t size = 0;
    if (!list && errno == EACCES) {
        return;  // what the container's user cannot read is missing
    }
    while ((size = ::getdents64(list.get(), buffer.data(), buffer.size())) > 0) {
        for (std::size_t offset = 0; offset < static_cast<std::size_t>(size);) {
            const auto* entry = reinterpret_cast<const dirent64*>(buffer.data() + offset);
            offset += entry->d_reclen;
            addEntry(folder, entry->d_name, entry->d_type);
        }
    }
    checkErrno(size, cat("Failed to list ", printable(folder.path)));
}

void LibraryReader::addEntry(LibraryFolder& folder, const char* name, unsigned char type) {
    if (!isLibraryName(name)) {
        return;
    }
    struct stat status {};
    if (type == DT_UNKNOWN && ::fstatat(folder.fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        type = static_cast<unsigned char>(IFTODT(status.st_mode));
    }
    if (type == DT_REG || type == DT_LNK) {
        folder.files.push_back({name, type == DT_LNK});
        addFile(folder, folder.files.back());
    }
}

void LibraryReader::addFile(const LibraryFolder& folder, LibraryFile& file) {
    // In units of the cost of a link, about 1 µs.
    constexpr std::size_t costOfReading = 5;
    constexpr std::size_t costOfPortion = 80;
    const bool isOpened = !file.isLink && (folder.known == nullptr || !folder.known->knows(file.name));
    next.emplace_back(&folder, &file);
    costOfNext += isOpened ? costOfReading : 1;
    if (costOfNext >= costOfPortion) {
        handOver();
    }
}

void LibraryReader::handOver() {
    // This much work per thread justifies its start.
    constexpr std::size_t portionsOfThread = 2;
    {
        const std::scoped_lock lock(mutex);
        portions.push_back(std::exchange(next, {}));
    }
    changed.notify_one();
    costOfNext = 0;
    if (++handedOver == portionsOfThread) {
        constexpr int most = 3;
        const auto processors = otherProcessors();
        maxThreads = static_cast<std::size_t>(std::min(CPU_COUNT(&processors), most));
    }
    if (threads.size() < maxThreads && handedOver % portionsOfThread == 0) {
        try {
            threads.emplace_back([this] {
                // A separate descriptor table, if possible: one shared by several threads is slower.
                ::unshare(CLONE_FILES);
                work();
            });
            moveElsewhere(threads.back());
        } catch (const std::system_error&) {
            maxThreads = 0;  // no more than the container's limits allow
        }
    }
}

void LibraryReader::complete() {
    {
        const std::scoped_lock lock(mutex);
        isComplete = true;
    }
    changed.notify_all();
}

std::optional<LibraryReader::Portion> LibraryReader::take() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return isComplete || !portions.empty(); });
    if (portions.empty()) {
        return std::nullopt;
    }
    auto portion = std::move(portions.front());
    portions.pop_front();
    return portion;
}

void LibraryReader::work() {
    const container_root::ContainerView view;
    while (const auto portion = take()) {
        for (const auto& [folder, file] : *portion) {
            if (file->isLink) {
                file->target = readLink(folder->fd, file->name);
            } else {
                readFile(*folder, *file, clock);
            }
        }
    }
}

void LibraryReader::finish() {
    handOver();
    complete();
    work();
    threads.clear();
}

}  // namespace sarus::hooks
