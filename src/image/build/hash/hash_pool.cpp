#include "image/build/hash/hash_pool.hpp"

#include <utility>

namespace sarus::image::build {

namespace {

constexpr std::size_t mostWaiting = 4U << 20U;  // bytes

}  // namespace

void HashPool::add(HashJob job) {
    {
        const std::lock_guard lock(mutex);
        if (waitingBytes + job.bytes <= mostWaiting) {
            waitingBytes += job.bytes;
            waiting.push_back(std::move(job));
            return;
        }
    }
    job.toHash.hashRest();
    end(job);
}

std::optional<HashJob> HashPool::take() {
    const std::lock_guard lock(mutex);
    if (waiting.empty()) {
        return std::nullopt;
    }
    auto job = std::move(waiting.front());
    waiting.pop_front();
    waitingBytes -= job.bytes;
    return job;
}

void HashPool::finish() {
    while (auto job = take()) {
        job->toHash.hashRest();
        end(*job);
    }
}

}  // namespace sarus::image::build
