#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace sarus::image::build {

/// An immutable block of bytes that several threads may read at the same time.
class Chunk {
public:
    explicit Chunk(std::size_t capacity) : storage(new unsigned char[capacity]), available(capacity) {}

    unsigned char* data() noexcept { return storage.get(); }
    std::size_t capacity() const noexcept { return available; }
    void setSize(std::size_t size) noexcept { used = size; }
    std::span<const unsigned char> bytes() const noexcept { return {storage.get(), used}; }
    /// Whether `part`, which is not empty, lies completely in these bytes.
    bool contains(std::span<const unsigned char> part) const noexcept {
        constexpr std::less_equal<const unsigned char*> notBehind;
        return notBehind(storage.get(), part.data()) &&
               notBehind(part.data() + part.size(), storage.get() + used);
    }

private:
    std::unique_ptr<unsigned char[]> storage;
    std::size_t available;
    std::size_t used = 0;
};

using ChunkPtr = std::shared_ptr<const Chunk>;

}  // namespace sarus::image::build
