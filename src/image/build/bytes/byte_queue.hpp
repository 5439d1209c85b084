#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "image/build/bytes/chunk.hpp"

namespace sarus::image::build {

/// A chunk in a queue. Producer and consumer agree on the meaning of `mark`.
struct QueuedChunk {
    ChunkPtr chunk;
    unsigned int mark = 0;
};

/// Passes chunks from one or more threads to another. `push` waits while at least `limit` bytes are queued,
/// which bounds the memory of a conversion. The consumer sees the producer's end or error after the last
/// chunk; a consumer that closes the queue releases a waiting producer. A waiting thread continues only when
/// there is enough work: half of the limit, or everything that is left. Switching threads costs more than
/// passing a chunk.
class ByteQueue {
public:
    explicit ByteQueue(std::size_t byteLimit) : limit(byteLimit) {}

    /// Returns false if the consumer has closed the queue.
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

    /// The next chunk, or null at the end. Rethrows the producer's error.
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

    /// Ends both sides: `push` refuses from now on, and `pop` returns the end.
    void close() {
        const std::lock_guard lock(mutex);
        closed = true;
        ended = true;
        chunks.clear();
        queuedBytes = 0;
        filled.notify_all();
        room.notify_all();
    }

    bool isClosed() {
        const std::lock_guard lock(mutex);
        return closed;
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
