#include "cli/broadcast.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/fsverity.hpp"
#include "base/host_variable.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "cli/starter_call.hpp"
#include "image/broadcast/local_copy.hpp"
#include "image/store/pull_lock.hpp"
#include "image/transfer/run_tool.hpp"

namespace sarus::cli {

namespace {

using Clock = std::chrono::steady_clock;

/// For each program of Slurm: then something is wrong with the cluster, and the shared file is there.
constexpr std::chrono::minutes longestBroadcast{15};

std::optional<std::uint64_t> numberOf(const char* variable) {
    return parseNumber(hostVariable(variable).value_or(""));
}

/// The caller's environment without what Slurm's programs, and the plugin for Slurm, would take for options.
std::vector<std::string> environmentForSlurm() {
    std::vector<std::string> result;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        const std::string_view text = *variable;
        const bool isOption = text.starts_with("SLURM_") || text.starts_with("SARUS_");
        if (!isOption || text.starts_with("SLURM_CONF=")) {
            result.emplace_back(text);
        }
    }
    return result;
}

image::ToolResult runSlurm(const std::string& name, const std::vector<std::string>& arguments,
                           std::vector<int> keepFds) {
    const auto path = findProgram(name);
    if (!path) {
        throw Error(cat("There is no program ", name, " in PATH"));
    }
    Command command{
        .path = *path, .args = {name}, .environment = environmentForSlurm(), .keepFds = std::move(keepFds)};
    command.args.insert(command.args.end(), arguments.begin(), arguments.end());
    const auto end = Clock::now() + longestBroadcast;
    return image::runTool(command, image::ToolStreams::captureBoth, "slurm-client",
                          image::ToolWatch{.interval = std::chrono::seconds(1), .look = [end](pid_t program) {
                                               if (Clock::now() > end) {
                                                   ::kill(program, SIGKILL);
                                               }
                                           }});
}

/// The first line that is the program's, not srun's about it.
std::string reasonOf(const image::ToolResult& result) {
    const auto lines = split(trim(result.err), '\n');
    const auto isOwn = [](const auto& line) { return !line.starts_with("srun: ") && !line.empty(); };
    const auto found = std::find_if(lines.begin(), lines.end(), isOwn);
    const auto& line = found == lines.end() ? lines.front() : *found;
    return line.empty() ? cat("status ", result.status.shellStatus()) : printable(line);
}

class Broadcaster {
public:
    Broadcaster(Context& theContext, const SlurmJob& theJob, const image::FoundImage& theImage)
        : context(theContext), job(theJob), image(theImage), info(*theImage.info) {}

    Broadcast run() const {
        try {
            return tryToRun();
        } catch (const Error&) {
            tellThatNoneComes();
            throw;
        }
    }

private:
    Broadcast tryToRun() const {
        const auto inPlace = onAllNodes({"--stage=prepare"});
        const auto present =
            static_cast<std::uint64_t>(std::count(inPlace.begin(), inPlace.end(), "present"));
        if (present == job.nodes) {
            return {job.nodes, false};
        }
        const auto suffix = randomLetters();
        const auto reader = readAhead();
        const auto sent = runSlurm("sbcast",
                                   {cat("--jobid=", job.id), descriptorPath(image.file.get()),
                                    image::partialCopy(copiesDirectory(context, job), info, suffix)},
                                   {image.file.get()});
        if (!sent.status.ok()) {
            throw Error(cat("sbcast: ", reasonOf(sent)));
        }
        onAllNodes({"--stage=complete", cat("--suffix=", suffix)});
        return {job.nodes, true};
    }

    /// sbcast reads a block, sends it, and only then reads the next one. This fills the page cache meanwhile,
    /// until its end or that of the Child.
    Child readAhead() const {
        const pid_t child = ::fork();
        if (child == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
            std::array<char, 1U << 18U> block{};
            off_t offset = 0;
            ssize_t count = 0;
            while ((count = ::pread(image.file.get(), block.data(), block.size(), offset)) > 0) {
                offset += count;
            }
            ::_exit(0);
        }
        return Child(child);  // it also works without
    }

    void tellThatNoneComes() const {
        try {
            onAllNodes({"--stage=abandon"});
        } catch (const Error&) {
            // What failed before counts. Those who wait lose patience.
        }
    }

    /// Runs one step of `sarus bcast` on each node. Returns the lines of their output.
    std::vector<std::string> onAllNodes(const std::vector<std::string>& stage) const {
        std::vector<std::string> arguments{
            cat("--jobid=", job.id),     "--overlap",           cat("--nodes=", job.nodes),
            cat("--ntasks=", job.nodes), "--ntasks-per-node=1", "--mpi=none",
            "--cpu-bind=none",           "--input=none",        "--chdir=/",
            "--job-name=bcast"};
        arguments.insert(arguments.end(), {cat(context.prefix(), "/bin/sarus"), "bcast"});
        arguments.insert(arguments.end(), stage.begin(), stage.end());
        arguments.insert(arguments.end(), {info.squashfsDigest, cat(info.squashfsSize), cat(info.identity)});
        const auto result = runSlurm("srun", arguments, {});
        if (!result.status.ok()) {
            throw Error(reasonOf(result));
        }
        return split(result.out, '\n');
    }

    Context& context;
    const SlurmJob& job;
    const image::FoundImage& image;
    const image::StoreInfo& info;
};

bool isWanted(Context& context, const Arguments& arguments, const std::optional<SlurmJob>& job) {
    const auto& least = context.config().broadcastMinNodes;
    return arguments.has("bcast") || (job && least && job->nodes >= *least);
}

/// Whether the copy is there, or comes because another step broadcasts it.
bool broadcastOrWarn(Context& context, const SlurmJob& job, const image::FoundImage& image) {
    try {
        broadcastImage(context, job, image, WhileBusy::fail);
        return true;
    } catch (const Error& error) {
        if (error.exitStatus() > 128) {
            throw;  // interrupted
        }
        if (error.errnum() == EWOULDBLOCK) {
            return true;
        }
        logWarn("CLI", cat(error.what(), ": using the shared file"));
        return false;
    }
}

}  // namespace

std::optional<SlurmJob> findSlurmJob() {
    const auto id = numberOf("SLURM_JOB_ID");
    if (!id) {
        return std::nullopt;
    }
    return SlurmJob{*id, numberOf("SLURM_JOB_NUM_NODES").value_or(0),
                    numberOf("SLURM_PROCID").value_or(0) == 0};
}

std::string copiesDirectory(Context& context, const SlurmJob& job) {
    const auto& config = context.config();
    return image::copiesDirectory(config.broadcastDir.value_or(config.tempDir), job.id);
}

void removeCopies(Context& context, const SlurmJob& job) {
    try {
        image::removeCopies(copiesDirectory(context, job));
    } catch (const Error& error) {
        logWarn("CLI", cat("The copies of images stay on this node: ", error.what()));
    }
}

Broadcast broadcastImage(Context& context, const SlurmJob& job, const image::FoundImage& image,
                         WhileBusy whileBusy) {
    const auto onWait = [&] {
        if (whileBusy == WhileBusy::fail) {
            throw Error::fromErrno("Another process broadcasts the image", EWOULDBLOCK);
        }
    };
    try {
        if (!image.info || !fsverity::isDigest(image.info->squashfsDigest)) {
            throw Error("no digest was recorded when it was stored", "Pull or load the image again");
        }
        if (job.nodes == 0) {
            throw Error("SLURM_JOB_NUM_NODES is not set");
        }
        const InterruptScope interruptible;
        const auto repository = context.repositoryDirectory(false);
        ensureUserDirectory(context, repository);
        const image::PullLock lock(image::RepositoryPaths{repository},
                                   cat("broadcast ", job.id, ' ', image.info->squashfsDigest), onWait);
        return Broadcaster(context, job, image).run();
    } catch (Error& error) {
        if (error.errnum() == EWOULDBLOCK) {
            throw;
        }
        throw Error(cat("Failed to broadcast ", image.reference.full(), ": ", error.what()), error.hint())
            .setExitStatus(error.exitStatus());
    }
}

void useLocalCopy(Context& context, const Arguments& arguments, MayBroadcast mayBroadcast,
                  image::FoundImage& image) {
    const auto job = findSlurmJob();
    const bool wanted = mayBroadcast == MayBroadcast::yes && isWanted(context, arguments, job);
    if (!job) {
        if (wanted) {
            logWarn("CLI", "The option '--bcast' has no effect outside of a Slurm job");
        }
        return;
    }
    const auto directory = copiesDirectory(context, *job);
    auto copy = image.info ? image::findLocalCopy(directory, *image.info) : std::nullopt;
    if (!copy && wanted && (!job->isFirstTask || broadcastOrWarn(context, *job, image)) && image.info) {
        copy = image::waitForLocalCopy(directory, *image.info,
                                       std::chrono::milliseconds(context.config().broadcastPatienceMs));
    }
    if (copy) {
        image.file = std::move(copy->file);
        image.path = std::move(copy->path);
    }
}

}  // namespace sarus::cli
