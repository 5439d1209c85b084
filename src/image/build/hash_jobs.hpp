#pragma once

#include <memory>

#include "image/build/written_digest.hpp"

namespace sarus::image::build {

/// Blocks of the output that are to be hashed, together with what must stay until then.
struct HashJob {
    HashJob() = default;
    HashJob(const HashJob&) = delete;
    HashJob& operator=(const HashJob&) = delete;
    virtual ~HashJob() = default;

    BlocksToHash toHash;
};

/// Hashing that waits for a thread which has one digest to compute and can do a second one beside it. All functions may be called
/// by several threads.
class HashJobs {
public:
    virtual ~HashJobs() = default;

    /// Null if there is nothing to be done.
    virtual std::unique_ptr<HashJob> takeJob() = 0;
    /// Gives a job back, all of which is done.
    virtual void endJob(std::unique_ptr<HashJob> job) = 0;
};

}  // namespace sarus::image::build
