#include "starter/namespace_holders.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <ctime>
#include <memory>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "starter/file_lock.hpp"

namespace sarus::starter {

namespace {

constexpr std::size_t lineSize = 64;
constexpr std::size_t largestFile = 1024 * lineSize;
/// A start holds the lock for about a millisecond, and many may start at once. One that was stopped holds it for longer.
constexpr int patienceMilliseconds = 1000;
constexpr std::time_t sweepSeconds = 24L * 60 * 60;

std::optional<NamespaceHolder> parseHolder(std::string_view line) {
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
    return NamespaceHolder{.pid = static_cast<pid_t>(numbers[0]),
                           .started = numbers[1],
                           .container = static_cast<int>(numbers[2]),
                           .payload = static_cast<int>(numbers[3])};
}

}  // namespace

std::string formatHolders(const std::vector<NamespaceHolder>& holders) {
    std::string text;
    for (const auto& holder : holders) {
        auto line = cat(holder.pid, ' ', holder.started, ' ', holder.container, ' ', holder.payload);
        line.resize(lineSize - 1, ' ');  // the four numbers have 53 characters at most
        text += line;
        text += '\n';
    }
    return text;
}

std::optional<std::vector<NamespaceHolder>> parseHolders(std::string_view text) {
    std::vector<NamespaceHolder> holders;
    for (; !text.empty(); text.remove_prefix(lineSize)) {
        const auto holder =
            text.size() >= lineSize && text[lineSize - 1] == '\n' ? parseHolder(text.substr(0, lineSize - 1)) : std::nullopt;
        if (!holder) {
            return std::nullopt;
        }
        holders.push_back(*holder);
    }
    return holders;
}

HolderFile HolderFile::open(const std::string& directory, const std::string& name, uid_t owner) {
    const auto path = cat(directory, '/', name);
    UniqueFd file;
    do {  // until the locked file is the one that has the name: a sweep may have removed it
        file = openFile(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
        struct stat status {};
        checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", printable(path)));
        if (!S_ISREG(status.st_mode) || status.st_uid != owner || (status.st_mode & 077) != 0) {
            throw Error(cat(printable(path), " is not a private file"));
        }
        if (!lockWithin(file.get(), patienceMilliseconds)) {
            throw Error(cat(printable(path), " cannot be locked"));
        }
    } while (!hasName(file.get(), path));
    return HolderFile(std::move(file));
}

std::vector<NamespaceHolder> HolderFile::read() const {
    std::string text(largestFile + 1, '\0');
    const auto count = ::pread(fd.get(), text.data(), text.size(), 0);
    if (count <= 0 || static_cast<std::size_t>(count) > largestFile) {
        return {};
    }
    text.resize(static_cast<std::size_t>(count));
    return parseHolders(text).value_or(std::vector<NamespaceHolder>());
}

void HolderFile::write(const std::vector<NamespaceHolder>& holders) const {
    const auto text = formatHolders(holders);
    const auto size = static_cast<ssize_t>(text.size());
    if (::pwrite(fd.get(), text.data(), text.size(), 0) != size || ::ftruncate(fd.get(), size) != 0) {
        const int error = errno;
        [[maybe_unused]] const auto emptied = ::ftruncate(fd.get(), 0);
        throw Error::fromErrno("Failed to write down who holds the user namespaces", error);
    }
}

void sweepHolderFiles(const std::string& directory) {
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(directory.c_str()), &::closedir);
    const auto oldest = ::time(nullptr) - sweepSeconds;
    while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
        const auto path = cat(directory, '/', static_cast<const char*>(entry->d_name));
        struct stat status {};
        if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_mtime > oldest) {
            continue;
        }
        const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && hasName(file.get(), path)) {
            ::unlink(path.c_str());
        }
    }
}

}  // namespace sarus::starter
