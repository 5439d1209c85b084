#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "engine/site_config.hpp"
#include "node/slurm_job.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

/// A container that outlives its processes: what it has written to its root filesystem, on this node.
struct KeptContainer {
    std::string name{};
    std::string image{};    ///< reference, or the path of a file
    std::string content{};  ///< names the content of the image file (squashfs::contentOf)
    node::SlurmJobMark job{};
    std::int64_t created = 0;  ///< Unix time
    bool remapRoot = false;    ///< the caller was root inside, from the beginning
    std::string directory{};   ///< of a new one: where the user wants its layers; "": beside its description
};

/// The user's kept containers on this node, below `containerStorage.directory`, in a directory that nobody
/// but root (rootless: the user) may enter. So a file of an image that becomes one of root's there, with a
/// set-user-ID bit, is within nobody's reach. Each is one directory, called NAME or, if it belongs to a job,
/// NAME@JOB, with `upper` and `work` of the overlay, `container.json`, which is written last and removed
/// first, and `lock`, which is locked as long as the container runs. If the user has chosen another directory
/// for the layers, a file `layers` says where they are (LayerPlace). There is no other state, so whatever is
/// killed leaves a container that can be entered or removed.
class ContainerStorage {
public:
    /// Milliseconds for a lock: who lists containers locks each of them for a moment.
    static constexpr int whileOthersList = 200;
    static constexpr int whileOthersRemove = 10'000;

    enum class Look {
        quick,  ///< for each start: not for a directory of another name, after somebody had taken the usual
                ///< one
        full,
        create,  ///< makes the directory
    };
    /// `config` must stay valid. nullopt if the user has none on this node. Throws Error if it cannot be
    /// made.
    static std::optional<ContainerStorage> find(const Credentials& credentials,
                                                const engine::SiteConfig& config, Look look);

    /// A container that is locked for this process.
    struct Opened {
        std::string directory;  ///< holds "upper" and "work"; for messages
        UniqueFd layers{};      ///< the same (O_PATH)
        UniqueFd lock{};        ///< empty on a filesystem without locks
        bool isNew = false;
        bool remapRoot = false;  ///< as in KeptContainer
    };

    /// What such a container has of users and groups is not what root inside needs, and with privileges it
    /// belongs to the node's root.
    static Error madeWithoutRoot(const std::string& name);

    /// Opens the container of that name (of that job, as the site has decided), or makes it. nullopt if there
    /// is none and `mayCreate` is false. Throws Error if it is in use, was made from another image, or
    /// exceeds the site's limit.
    std::optional<Opened> open(const KeptContainer& wanted, bool mayCreate) const;

    struct Entry {
        KeptContainer container;
        std::string directory;
        bool isRunning = false;
    };
    /// By name. What cannot be read is left out, with a warning.
    std::vector<Entry> list() const;
    /// The one that a caller in `job` means by `name`: that of this job, otherwise the only one. Without an
    /// image if its description is damaged. Throws Error if several others have the name.
    std::optional<Entry> find(const std::string& name, const node::SlurmJobMark& job) const;

    /// A shared lock, open for reading: while it is, the container stays as it is. Empty on a filesystem
    /// without locks. nullopt if it runs. Throws Error.
    static std::optional<UniqueFd> lockToRead(const Entry& entry);

    /// The directory that holds its layers, "upper" and "work" (O_PATH). Throws Error.
    UniqueFd openLayers(const Entry& entry) const;

    /// Waits for its lock for up to `milliseconds`. False if it runs; for 0 also if that cannot be known, for
    /// lack of locks. Throws Error.
    bool remove(const Entry& entry, int milliseconds) const;
    /// Removes those of jobs that are over, and what killed processes left. `own`, the caller's job, is over
    /// only if its directory is gone: its time limit may have been raised. Keeps what cannot be removed, with
    /// a message at level INFO. Returns their names.
    std::vector<std::string> removeOfEndedJobs(const node::SlurmJobMark& own) const;

private:
    ContainerStorage(std::string place, const Credentials& caller, const engine::SiteConfig& configuration)
        : path(std::move(place)),
          credentials(caller),
          config(&configuration),
          settings(configuration.containerStorage) {}

    std::string key(const std::string& name, const node::SlurmJobMark& job) const;
    std::optional<Opened> tryOpen(const KeptContainer& wanted, bool mayCreate) const;
    void checkContent(const KeptContainer& found, const KeptContainer& wanted) const;
    void checkSize(const std::string& name, int layers) const;
    void makeLayers(Opened& opened, int folder, const KeptContainer& wanted) const;
    void removeLayers(const std::string& directory) const;
    bool removeDirectory(const std::string& directory, int milliseconds) const;

    /// Of all but the container's root directory.
    uid_t owner() const noexcept { return credentials.privileged() ? 0 : credentials.ownerUid(); }
    void removeFiles(const std::string& directory) const;

    std::string path;
    Credentials credentials;
    const engine::SiteConfig* config;
    engine::ContainerStorageSettings settings;
};

}  // namespace sarus::starter
