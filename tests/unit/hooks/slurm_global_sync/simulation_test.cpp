#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "base/text.hpp"
#include "hooks/slurm_global_sync/barrier.hpp"
#include "hooks/slurm_global_sync/memory_files.hpp"

namespace sarus::hooks::slurm_global_sync::simulation_test {
namespace {

using std::chrono::milliseconds;
using State = Barrier::State;

constexpr milliseconds spread{10'000};

/// The times at which the tasks arrive, in order of rank.
std::vector<milliseconds> arrivalTimes(Rank tasks) {
    std::mt19937 random(7);
    std::uniform_int_distribution<int> within(0, static_cast<int>(spread.count()));
    std::vector<milliseconds> times(tasks);
    std::generate(times.begin(), times.end(), [&] { return milliseconds(within(random)); });
    return times;
}

struct Result {
    MemoryFiles::Count count;
    std::uint64_t mostOfATask = 0;  ///< operations of a task that leads no node
    std::uint64_t polls = 0;
    milliseconds last{};  ///< when the last task went on
};

/// A step on nodes with a leader each, which runs the protocol as synchronization.cpp does, in virtual time.
class Simulation {
public:
    Simulation(Rank tasks, Rank nodeCount) : barrier(files, {"jobid-1-stepid-0", tasks}), nodes(nodeCount) {
        const auto times = arrivalTimes(tasks);
        for (Rank rank = 0; rank < tasks; ++rank) {
            events.emplace(times[rank], Event{rank / (tasks / nodeCount), rank});
        }
    }

    Result run() {
        while (!events.empty()) {
            const auto [time, event] = *events.begin();
            events.erase(events.begin());
            now = time;
            event.rank ? arrive(nodes[event.node], event) : look(nodes[event.node], event);
        }
        result.count = files.count;
        result.count.looks += opened;
        result.last = now;
        return result;
    }

    MemoryFiles files;

private:
    struct Event {
        std::size_t node = 0;
        std::optional<Rank> rank{};  ///< a task that arrives; else the node's leader looks
    };
    struct Node {
        std::vector<Rank> ranks{};
        bool counts = false;
        LookIntervals intervals{};
    };

    template <typename Work>
    void asTask(Work work) {
        const auto before = files.count.operations();
        work();
        ofTask = files.count.operations() - before;
    }

    void arrive(Node& node, const Event& event) {
        ++opened;  // of the user's directory, by every task
        const bool leads = node.ranks.empty();
        if (leads) {
            ASSERT_TRUE(barrier.open(files.now));
            events.emplace(now + node.intervals.next(), Event{event.node});
        }
        asTask([&] { barrier.arrive(*event.rank); });
        node.counts = node.counts || *event.rank == 0;
        node.ranks.push_back(*event.rank);
        ofArrival = ofTask;
    }

    void look(Node& node, const Event& event) {
        ++result.polls;
        if ((node.counts ? barrier.count() : barrier.look()) == State::waiting) {
            events.emplace(now + node.intervals.next(), event);
            return;
        }
        for (const auto rank : node.ranks) {
            asTask([&] { barrier.depart(rank); });
            result.mostOfATask = std::max(result.mostOfATask, 1 + ofArrival + ofTask);
        }
        barrier.leave();
    }

    Barrier barrier;
    std::vector<Node> nodes;
    std::multimap<milliseconds, Event> events;
    milliseconds now{};
    std::uint64_t opened = 0;
    std::uint64_t ofTask = 0;
    std::uint64_t ofArrival = 0;
    Result result;
};

/// The scheme of the reference: every task lists a directory every 100 ms, task 0 also that of the
/// departures, which it then removes.
Result simulateReference(Rank tasks) {
    constexpr milliseconds interval{100};
    auto times = arrivalTimes(tasks);
    std::sort(times.begin(), times.end());
    Result result;
    const auto complete = times.back();
    for (const auto arrival : times) {
        std::uint64_t operations = 3;  // makes directories and two files, as few as possible
        for (auto time = arrival;; time += interval) {
            ++result.count.listings;
            ++operations;
            result.count.entries += static_cast<std::uint64_t>(
                std::upper_bound(times.begin(), times.end(), time) - times.begin());
            if (time >= complete) {
                result.last = std::max(result.last, time);
                break;
            }
        }
        result.count.changes += 3;
        result.polls += operations - 3;
        result.mostOfATask = std::max(result.mostOfATask, operations);
    }
    result.count.changes += 2 * tasks + 3;
    return result;
}

void print(const std::string& scheme, const Result& result) {
    std::cout << "| " << scheme << " | " << result.count.operations() << " | " << result.count.listings
              << " | " << result.count.entries << " | " << result.mostOfATask << " | "
              << (result.last - spread).count() << " ms |\n";
}

TEST(SlurmSyncSimulation, TenThousandTasksNeedAtMostFourOperationsEach) {
    constexpr Rank tasks = 10'000;
    constexpr Rank nodes = 100;
    Simulation simulation(tasks, nodes);
    const auto result = simulation.run();
    const auto reference = simulateReference(tasks);
    std::cout << "| scheme | operations | listings | entries listed | most of one task | last task goes on "
                 "after |\n";
    print("reference", reference);
    print("ours", result);

    EXPECT_LE(result.mostOfATask, 4U);
    constexpr std::uint64_t ofALeader =
        11;  // makes and removes directories, and reads why the step has ended
    EXPECT_LE(result.count.operations(), 4 * tasks + nodes * ofALeader + 2 * result.polls);
    EXPECT_LE(result.polls / nodes, 25U);
    EXPECT_LE(result.count.listings, 25U);
    EXPECT_LE(result.last, spread + milliseconds(2'000));
    EXPECT_TRUE(simulation.files.isEmpty());
    EXPECT_GT(reference.count.operations(), 10 * result.count.operations());
}

TEST(SlurmSyncSimulation, EveryTaskHasItsDocumentedFiles) {
    constexpr Rank tasks = 64;
    Simulation simulation(tasks, 4);
    simulation.run();
    const std::set<std::string> made(simulation.files.made.begin(), simulation.files.made.end());
    std::set<std::string> expected;
    for (Rank rank = 0; rank < tasks; ++rank) {
        expected.insert(cat("jobid-1-stepid-0/arrival/slurm-procid-", rank));
        expected.insert(cat("jobid-1-stepid-0/departure/slurm-procid-", rank));
    }
    EXPECT_EQ(made, expected);
}

}  // namespace
}  // namespace sarus::hooks::slurm_global_sync::simulation_test
