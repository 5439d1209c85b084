#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "image/build/chunk.hpp"

namespace sarus::image::build {

/// A chunk in a queue; what `mark` means is between producer and consumer.
struct QueuedChunk {
    ChunkPtr chunk;
    unsigned int mark = 0;
};

/// Hands chunks from one or more threads to another. `push` waits while `limit` bytes or more are queued, which is what bounds
/// the memory of a conversion. An end or an error that the producer leaves reaches the consumer after the last chunk; a consumer
/// that closes the queue releases a waiting producer. Who had to wait continues only when there is work for a while, for
/// half of the limit, or everything that is left: changing between threads costs more than handing over a chunk.
class ByteQueue {
public:
    explicit ByteQueue(std::size_t byteLimit) : limit(byteLimit) {}

    /// Returns false if the consumer wants no more.
    bool push(ChunkPtr chunk, unsigned int mark = 0) {
        std::unique_lock lock(mutex);
        if (queuedBytes >= limit) {
            room.wait(lock, [this] { return queuedBytes <= limit / 2 || closed; });
        }
        if (closed) {
            return false;
        }
        queuedBytes += chunk->bytes().size();
        chunks.push_back({std::move(chunk), mark});
        if (queuedBytes >= limit / 2) {
            filled.notify_one();
        }
        return true;
    }

    /// No more chunks; `problem`, if any, is rethrown in the consumer.
    void end(std::exception_ptr problem = nullptr) {
        const std::lock_guard lock(mutex);
        ended = true;
        failure = std::move(problem);
        filled.notify_one();
    }

    /// The next chunk, or null at the end. Throws what the producer failed with.
    ChunkPtr pop() { return popMarked().chunk; }

    QueuedChunk popMarked() {
        std::unique_lock lock(mutex);
        if (chunks.empty()) {
            filled.wait(lock, [this] { return queuedBytes >= limit / 2 || ended; });
        }
        if (chunks.empty()) {
            if (failure) {
                std::rethrow_exception(failure);
            }
            return {};
        }
        QueuedChunk next = std::move(chunks.front());
        chunks.pop_front();
        queuedBytes -= next.chunk->bytes().size();
        if (queuedBytes <= limit / 2) {
            room.notify_all();
        }
        return next;
    }

    /// Ends both sides: `push` refuses from now on, and `pop` finds the end.
    void close() {
        const std::lock_guard lock(mutex);
        closed = true;
        ended = true;
        chunks.clear();
        queuedBytes = 0;
        filled.notify_all();
        room.notify_all();
    }

private:
    std::mutex mutex;
    std::condition_variable filled;
    std::condition_variable room;
    std::deque<QueuedChunk> chunks;
    std::size_t queuedBytes = 0;
    std::size_t limit;
    bool ended = false;
    bool closed = false;
    std::exception_ptr failure;
};

}  // namespace sarus::image::build
