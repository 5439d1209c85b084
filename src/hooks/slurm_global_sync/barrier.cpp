#include "hooks/slurm_global_sync/barrier.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks::slurm_global_sync {

namespace {

constexpr std::string_view filePrefix = "slurm-procid-";
constexpr std::string_view arrivalName = "/arrival";
constexpr std::string_view departureName = "/departure";
constexpr std::string_view failureName = "/failed";
constexpr std::string_view stepPrefix = "jobid-";
constexpr std::chrono::hours forgottenAfter{24};
/// A directory can vanish under a task only when an earlier round of the same step leaves it.
constexpr int attempts = 100;

std::string fileOf(const std::string& directory, Rank rank) {
    return cat(directory, '/', filePrefix, rank);
}

}  // namespace

std::chrono::milliseconds LookIntervals::next() {
    constexpr std::chrono::milliseconds longest{1000};
    return std::exchange(interval, std::min(interval * 3 / 2, longest));
}

Barrier::Barrier(SharedFiles& theFiles, Step theStep)
    : files(theFiles),
      step(std::move(theStep)),
      arrivals(cat(step.name, arrivalName)),
      departures(cat(step.name, departureName)),
      failureFile(cat(step.name, failureName)) {}

void Barrier::makeDirectories() {
    for (int i = 0; i < attempts; ++i) {
        files.makeDirectory(step.name);
        if (files.makeDirectory(arrivals) != SharedFiles::Made::noParent &&
            files.makeDirectory(departures) != SharedFiles::Made::noParent) {
            return;
        }
    }
    throw Error(cat("Failed to create ", arrivals, ": it is removed again and again"));
}

bool Barrier::open(std::chrono::seconds now) {
    makeDirectories();
    auto status = files.status(arrivals);
    if (status && now - status->modified > forgottenAfter) {  // of a job that had the same number
        sweep();
        makeDirectories();
        status = files.status(arrivals);
    }
    return status && !status->marked;
}

void Barrier::sweep() {
    removeAll(step.name);
}

void Barrier::arrive(Rank rank) {
    // One that is there already was left behind by this task: a rank exists once in a step.
    for (int i = 0; files.makeFile(fileOf(arrivals, rank), "") == SharedFiles::Made::noParent; ++i) {
        if (i == attempts) {
            throw Error(cat("Failed to create a file in ", arrivals));
        }
        makeDirectories();
    }
}

Barrier::State Barrier::look() {
    // Its files are there until this node has departed: where they are not, somebody has swept.
    const auto status = files.status(arrivals);
    if (status && !status->marked) {
        return State::waiting;
    }
    return files.read(failureFile) ? State::failed : State::complete;
}

std::vector<bool> Barrier::arrived() {
    std::vector<bool> result(step.tasks);
    for (const auto& name : files.list(arrivals)) {
        if (name.starts_with(filePrefix)) {
            const auto rank = parseNumber(std::string_view(name).substr(filePrefix.size()));
            if (rank && *rank < step.tasks) {
                result[*rank] = true;
            }
        }
    }
    return result;
}

Barrier::State Barrier::count() {
    const auto ranks = arrived();
    if (std::find(ranks.begin(), ranks.end(), false) != ranks.end()) {
        // Another node may have given up; then its tasks have withdrawn. An empty file is about to be
        // written.
        return files.read(failureFile).value_or("").empty() ? State::waiting : State::failed;
    }
    files.mark(arrivals);
    return State::complete;
}

Barrier::State Barrier::giveUp(std::chrono::seconds waited) {
    const auto ranks = arrived();
    std::vector<Rank> missing;
    for (Rank rank = 0; rank < step.tasks; ++rank) {
        if (!ranks[rank]) {
            missing.push_back(rank);
        }
    }
    if (missing.empty()) {  // the node that should have counted them has died
        files.mark(arrivals);
        return State::complete;
    }
    ownFailure =
        cat(missing.size(), " of the step's ", step.tasks, " tasks did not start their container within ",
            waited.count(), " s: ", missing.size() == 1 ? "rank " : "ranks ", describeRanks(missing));
    files.makeFile(failureFile, ownFailure);
    files.mark(arrivals);
    return State::failed;
}

std::string Barrier::failure() {
    auto text = files.read(failureFile).value_or("");
    if (text.empty()) {  // another node gives up at the same time, or has left already
        text = ownFailure;
    }
    return text.empty() ? "another node of the step does not wait any longer" : printable(text);
}

void Barrier::depart(Rank rank) {
    for (int i = 0; !files.rename(fileOf(arrivals, rank), fileOf(departures, rank)); ++i) {
        // Either the directory was removed by an earlier round that left, or the file by a sweep.
        if (i == 1 || files.makeDirectory(departures) != SharedFiles::Made::now) {
            return;
        }
    }
    files.remove(fileOf(departures, rank));
}

void Barrier::withdraw(Rank rank) {
    files.remove(fileOf(arrivals, rank));
}

void Barrier::leave() {
    if (!files.removeDirectory(arrivals)) {
        return;  // the tasks of another node have yet to depart
    }
    files.remove(failureFile);
    if (files.removeDirectory(departures)) {
        files.removeDirectory(step.name);
    }
}

void Barrier::removeAll(const std::string& name) {
    for (const auto& directory : {cat(name, arrivalName), cat(name, departureName)}) {
        for (const auto& entry : files.list(directory)) {
            files.remove(cat(directory, '/', entry));
        }
        files.removeDirectory(directory);
    }
    files.remove(cat(name, failureName));
    files.removeDirectory(name);
}

void Barrier::removeForgotten(std::chrono::seconds now) {
    for (const auto& name : files.list(".")) {
        if (!name.starts_with(stepPrefix) || name == step.name) {
            continue;
        }
        const auto status = files.status(name);
        if (status && now - status->modified > forgottenAfter) {
            removeAll(name);
        }
    }
}

std::string describeRanks(const std::vector<Rank>& ranks) {
    constexpr std::size_t most = 10;
    std::string text;
    std::size_t ranges = 0;
    std::size_t shown = 0;
    while (shown < ranks.size() && ranges < most) {
        std::size_t last = shown;
        while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
            ++last;
        }
        text += cat(text.empty() ? "" : ", ", ranks[shown]);
        if (last > shown) {
            text += cat('-', ranks[last]);
        }
        shown = last + 1;
        ++ranges;
    }
    return shown < ranks.size() ? cat(text, " and ", ranks.size() - shown, " more") : text;
}

}  // namespace sarus::hooks::slurm_global_sync
