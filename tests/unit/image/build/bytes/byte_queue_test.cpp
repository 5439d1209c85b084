#include "image/build/bytes/byte_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

namespace sarus::image::build::byte_queue_test {
namespace {

ChunkPtr chunkOf(std::size_t size) {
    auto chunk = std::make_shared<Chunk>(size);
    chunk->setSize(size);
    return chunk;
}

/// Two threads which wait for room in a full queue; `refused` counts those that were told to stop.
struct WaitingProducers {
    explicit WaitingProducers(ByteQueue& queue) {
        for (auto& thread : threads) {
            thread = std::thread([this, &queue] { refused += queue.push(chunkOf(1)) ? 0 : 1; });
        }
        // There is nothing to see of a thread that waits; one that comes later makes the test easier, never
        // wrong.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    void join() {
        for (auto& thread : threads) {
            thread.join();
        }
    }
    std::array<std::thread, 2> threads;
    std::atomic<int> refused = 0;
};

TEST(ByteQueue, ClosingReleasesEveryProducerThatWaits) {
    ByteQueue queue(8);
    queue.push(chunkOf(8));
    WaitingProducers producers(queue);
    queue.close();
    producers.join();
    EXPECT_EQ(producers.refused, 2);
}

TEST(ByteQueue, RoomReleasesEveryProducerThatWaits) {
    ByteQueue queue(8);
    queue.push(chunkOf(8));
    WaitingProducers producers(queue);
    EXPECT_EQ(queue.pop()->bytes().size(), 8U);
    producers.join();
    EXPECT_EQ(producers.refused, 0);
}

}  // namespace
}  // namespace sarus::image::build::byte_queue_test
