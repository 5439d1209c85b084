#include "starter/namespaces/holder_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <ctime>
#include <functional>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/process_tree.hpp"
#include "base/read_bytes.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

constexpr std::size_t lineSize = 64;
constexpr std::size_t largestFile = HolderFile::mostHolders * lineSize;
constexpr std::time_t sweepSeconds = 24L * 60 * 60;

std::optional<Holder> parseHolder(std::string_view line) {
    const auto words = splitWords(line);
    if (words.size() != 4) {
        return std::nullopt;
    }
    std::array<std::uint64_t, 4> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto number = parseNumber(words[i]);
        if (!number || (i != 1 && *number > INT_MAX)) {
            return std::nullopt;
        }
        numbers[i] = *number;
    }
    if (numbers[0] == 0 || numbers[1] == 0) {
        return std::nullopt;
    }
    return Holder{.pid = static_cast<pid_t>(numbers[0]),
                  .started = numbers[1],
                  .first = static_cast<int>(numbers[2]),
                  .second = static_cast<int>(numbers[3])};
}

/// Empty for a damaged file.
std::vector<Holder> readHolders(int file) {
    const auto text = readableBytes(file, 0, largestFile + 1);
    if (text.empty() || text.size() > largestFile) {
        return {};
    }
    return parseHolders(text).value_or(std::vector<Holder>());
}

/// Removes a file unless somebody has locked it or the condition is false.
void removeIf(const std::string& path, const std::function<bool(int)>& condition) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file && tryLock(file.get(), LockMode::exclusive) == LockResult::held && hasName(file.get(), path) &&
        condition(file.get())) {
        ::unlink(path.c_str());
    }
}

}  // namespace

std::string formatHolders(const std::vector<Holder>& holders) {
    std::string text;
    for (const auto& holder : holders) {
        auto line = cat(holder.pid, ' ', holder.started, ' ', holder.first, ' ', holder.second);
        line.resize(lineSize - 1, ' ');  // the four numbers have at most 53 characters
        text += line;
        text += '\n';
    }
    return text;
}

std::optional<std::vector<Holder>> parseHolders(std::string_view text) {
    std::vector<Holder> holders;
    for (; !text.empty(); text.remove_prefix(lineSize)) {
        const auto holder = text.size() >= lineSize && text[lineSize - 1] == '\n'
                                ? parseHolder(text.substr(0, lineSize - 1))
                                : std::nullopt;
        if (!holder) {
            return std::nullopt;
        }
        holders.push_back(*holder);
    }
    return holders;
}

std::string placeOfSharing() {
    auto place = bootId();
    for (const char* path : {"/proc/self/ns/user", "/proc/self/ns/pid"}) {
        struct stat status {};
        checkErrno(::stat(path, &status), cat("Failed to examine ", path));
        place += cat('-', status.st_ino);
    }
    return place;
}

HolderFile HolderFile::open(const std::string& directory, const std::string& name, uid_t owner,
                            std::chrono::milliseconds patience) {
    auto path = cat(directory, '/', name);
    UniqueFd file;
    do {  // until the name refers to the locked file: a sweep may have removed it
        file = openFile(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
        struct stat status {};
        checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", printable(path)));
        if (!S_ISREG(status.st_mode) || status.st_uid != owner || (status.st_mode & 077) != 0) {
            throw Error(cat(printable(path), " is not a private file"));
        }
        const auto lock = lockWithin(file.get(), static_cast<int>(patience.count()));
        if (lock == LockResult::unsupported) {
            throw Error::fromErrno(cat("Failed to lock ", printable(path)), ENOLCK);
        }
        if (lock != LockResult::held) {
            throw Error(cat(printable(path), " cannot be locked"));
        }
    } while (!hasName(file.get(), path));
    return {std::move(file), std::move(path)};
}

std::vector<Holder> HolderFile::read() const {
    return readHolders(fd.get());
}

void HolderFile::write(const std::vector<Holder>& holders) const {
    const auto text = formatHolders(holders);
    const auto size = static_cast<ssize_t>(text.size());
    if (::pwrite(fd.get(), text.data(), text.size(), 0) != size || ::ftruncate(fd.get(), size) != 0) {
        const int error = errno;
        [[maybe_unused]] const auto emptied = ::ftruncate(fd.get(), 0);
        throw Error::fromErrno(cat("Failed to update ", printable(path)), error);
    }
}

void HolderFile::unlock() const noexcept {
    ::flock(fd.get(), LOCK_UN);
}

bool HolderFile::lockAgain(std::chrono::milliseconds patience) const noexcept {
    return lockWithin(fd.get(), static_cast<int>(patience.count())) == LockResult::held;
}

void HolderFile::giveUpWriting() {
    fd = openFile(descriptorPath(fd.get()), O_RDONLY);
}

void HolderFile::remove() const noexcept {
    if (hasName(fd.get(), path)) {
        ::unlink(path.c_str());
    }
}

void sweepHolderFiles(const std::string& directory) {
    Directory entries(directory, Missing::isEmpty);
    const auto oldest = ::time(nullptr) - sweepSeconds;
    while (const char* name = entries.next()) {
        const auto path = cat(directory, '/', name);
        struct stat status {};
        if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_mtime > oldest) {
            continue;
        }
        removeIf(path, [](int) { return true; });
    }
}

void sweepUnheldFiles(const std::string& directory) try {
    constexpr std::size_t many = 64;
    std::vector<std::string> paths;
    Directory entries(directory, Missing::isEmpty);
    while (const char* name = entries.next()) {
        paths.push_back(cat(directory, '/', name));
    }
    if (paths.size() <= many) {
        return;
    }
    for (const auto& path : paths) {
        removeIf(path, [](int file) {
            const auto holders = readHolders(file);
            return std::none_of(holders.begin(), holders.end(), [](const Holder& holder) {
                return Process(holder.pid).started() == holder.started;
            });
        });
    }
} catch (const Error& error) {
    logDebug("Runtime", error.what());  // the next start tries again
}

}  // namespace sarus::starter
