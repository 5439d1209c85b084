#pragma once

#include <unistd.h>

#include <utility>

namespace sarus {

/// Owns a file descriptor and closes it. An empty one holds -1.
class UniqueFd {
public:
    UniqueFd() noexcept = default;
    explicit UniqueFd(int descriptor) noexcept : fd(descriptor) {}
    UniqueFd(UniqueFd&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        if (this != &other) {
            reset(std::exchange(other.fd, -1));
        }
        return *this;
    }
    UniqueFd(const UniqueFd&) = delete;
    UniqueFd& operator=(const UniqueFd&) = delete;
    ~UniqueFd() { reset(); }

    int get() const noexcept { return fd; }
    explicit operator bool() const noexcept { return fd >= 0; }
    /// Releases the descriptor to the caller, who closes it.
    int release() noexcept { return std::exchange(fd, -1); }
    void reset(int descriptor = -1) noexcept {
        const int old = std::exchange(fd, descriptor);
        if (old >= 0) {
            ::close(old);
        }
    }

private:
    int fd = -1;
};

}  // namespace sarus
