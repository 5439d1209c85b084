#include "starter/image/loop_hints.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/log.hpp"
#include "base/private_directory.hpp"
#include "base/read_bytes.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

constexpr std::string_view subsystem = "LoopDevice";
/// Suffixes of the hints for one image.
constexpr std::array<std::string_view, 4> slots{"", ".1", ".2", ".3"};

std::optional<LoopBinding> readBinding(int hint) {
    const auto text = readableBytes(hint, 0, 32);
    const auto words = splitWords(text);
    const auto number = words.size() == 2 ? parseNumber(words[0]) : std::nullopt;
    const auto sequence = words.size() == 2 ? parseNumber(words[1]) : std::nullopt;
    if (!number || *number >= (1U << 20U) || !sequence) {
        return std::nullopt;
    }
    return LoopBinding{.number = static_cast<unsigned>(*number), .sequence = *sequence};
}

/// Reads only sysfs: opening a stranger's device would keep it bound.
bool isBound(const LoopBinding& device) {
    const auto directory = cat("/sys/block/loop", device.number);
    if (device.sequence == 0) {
        return pathExists(directory + "/loop");
    }
    try {
        return trim(readFile(directory + "/diskseq")) == cat(device.sequence);
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

LoopHints::LoopHints(const std::string& directory, const struct stat& image) : name(fileVersion(image)) {
    try {
        registry = makeRootsDirectory(directory);
    } catch (const Error& error) {
        logInfo(subsystem, cat("Loop devices are not shared: ", error.what()));
    }
}

std::vector<LoopBinding> LoopHints::read() const {
    std::vector<LoopBinding> found;
    for (const auto slot : slots) {
        const UniqueFd hint(
            ::openat(registry.get(), cat(name, slot).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
        if (!hint) {
            break;
        }
        if (const auto device = readBinding(hint.get())) {
            found.push_back(*device);
        }
    }
    return found;
}

void LoopHints::lock(std::chrono::milliseconds timeout) {
    for (const auto slot : slots) {
        for (;;) {
            const auto hintName = cat(name, slot);
            UniqueFd hint(
                ::openat(registry.get(), hintName.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
            if (!hint || lockWithin(hint.get(), static_cast<int>(timeout.count())) != LockResult::held) {
                break;
            }
            struct stat status {};
            if (::fstat(hint.get(), &status) == 0 && status.st_nlink > 0) {  // 0: swept between open and lock
                file = std::move(hint);
                return;
            }
        }
    }
    logInfo(subsystem, "the loop device of the image is locked by other processes: using one of our own");
}

std::optional<LoopBinding> LoopHints::locked() const {
    return file ? readBinding(file.get()) : std::nullopt;
}

void LoopHints::record(const LoopBinding& device, const struct stat& image) const {
    if (!file || fileVersion(image) != name) {
        return;
    }
    const std::string text = cat(device.number, ' ', device.sequence, '\n');
    if (::ftruncate(file.get(), 0) == 0) {
        [[maybe_unused]] const auto written = ::pwrite(file.get(), text.data(), text.size(), 0);
    }
    sweepOthers(device.number);
}

/// Removes outdated hints once there are many. The rest are as many as the node has images in use. `own`: the
/// device just bound; all other hints for it are outdated.
void LoopHints::sweepOthers(unsigned own) const try {
    constexpr std::size_t many = 64;
    std::vector<std::string> found;
    auto entries = Directory::of(registry.get(), "the hints of loop devices");
    while (const char* entry = entries.next()) {
        found.emplace_back(entry);
    }
    if (found.size() <= many) {
        return;
    }
    for (const auto& entry : found) {
        const UniqueFd other(
            ::openat(registry.get(), entry.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        const auto device = other ? readBinding(other.get()) : std::nullopt;
        const bool isGone = other && (!device || device->number == own || !isBound(*device));
        if (isGone && tryLock(other.get(), LockMode::exclusive) == LockResult::held) {  // our own is locked
            ::unlinkat(registry.get(), entry.c_str(), 0);
        }
    }
} catch (const Error& error) {
    logDebug(subsystem, error.what());  // the next start tries again
}

}  // namespace sarus::starter
