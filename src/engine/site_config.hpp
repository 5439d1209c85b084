#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "oci/runtime/mount_request.hpp"

namespace sarus::engine {

/// One entry of `siteDevices`.
struct SiteDevice {
    std::string source;
    std::string destination;  ///< equals source if the configuration sets none
    std::string access = "rwm";
};

/// `environment`.
struct SiteEnvironment {
    std::map<std::string, std::string> set;
    std::map<std::string, std::string> prepend;
    std::map<std::string, std::string> append;
    std::vector<std::string> unset;
};

/// `userMounts`; an empty list means no restriction.
struct UserMountRules {
    std::vector<std::string> notAllowedPrefixesOfPath;
    std::vector<std::string> notAllowedPaths;
};

enum class RamFilesystem { tmpfs, ramfs };

/// How the set-user-ID starter mounts an image (key `imageMount`; `dataMount` for data). SECURITY.md states
/// the risk of each.
enum class ImageMountPolicy { kernel, fuse, kernelForRootOwned };

struct ContainersPolicy {
    std::string path;
    bool enforce = false;
};

/// Limits for unpacking a pulled or loaded image (key `imageLimits`); absent: the image builder's defaults.
struct ImageLimits {
    std::optional<std::uint64_t> maxUnpackedSize;  ///< bytes
    std::optional<std::uint64_t> maxEntries;
};

/// Where the starter's records go (key `auditLog`), by the numbers of syslog's facilities (RFC 5424, 6.2.1).
enum class AuditFacility : int {
    off = -1,
    user = 1,
    daemon = 3,
    auth = 4,
    authpriv = 10,
    local0 = 16,
    local1,
    local2,
    local3,
    local4,
    local5,
    local6,
    local7
};

/// Which images the set-user-ID starter runs (key `imagePolicy`); every rule that is set must hold.
struct ImagePolicy {
    std::vector<std::string> owners;  ///< of the image file: names or ids
    std::vector<std::string> groups;  ///< of the image file: names or ids
    std::vector<std::string> paths;   ///< the file is in one of these directories, or below
    std::optional<std::string> digestsFile;
    bool verify = false;

    bool isEmpty() const noexcept {
        return owners.empty() && groups.empty() && paths.empty() && !digestsFile && !verify;
    }
};

/// Key `containerLimits`, for the set-user-ID starter; absent: no limit.
struct ContainerLimits {
    std::optional<std::uint64_t> perUser;  ///< containers of a user on a node
    std::optional<std::uint64_t> mounts;   ///< mounts of a container that its user asked for
};

/// Key `pruneAfterPull`: what a pull removes at its end from its user's repository; absent: nothing.
struct PruneAfterPull {
    std::optional<std::uint64_t> olderThanDays;
    std::optional<std::uint64_t> keepBytes;
};

/// Key `containerStorage`: what containers keep beyond their end (`sarus run --keep`).
struct ContainerStorageSettings {
    std::optional<std::string> directory;  ///< on every node; absent: tempDir
    std::optional<std::uint64_t> maxSize;  ///< of a container, in bytes, when it is entered
    bool perJob = true;                    ///< a container belongs to the job that made it
};

/// sarus.json (reference documentation, "Configuration file reference"), parsed and validated.
struct SiteConfig {
    bool securityChecks = true;
    std::string ociBundleDir;
    std::string rootfsFolder;
    std::string prefixDir;
    std::string tempDir;
    std::string localRepositoryBaseDir;
    std::optional<std::string> centralizedRepositoryDir;
    std::optional<std::string> hooksDir;
    std::string skopeoPath;
    std::optional<std::string> umociPath;       ///< accepted for compatibility, never run
    std::optional<std::string> mksquashfsPath;  ///< accepted for compatibility, never run
    std::string mksquashfsOptions;
    ImageLimits imageLimits;
    std::optional<std::string> initPath;  ///< needed only with --init
    std::string runcPath;
    RamFilesystem ramFilesystemType = RamFilesystem::tmpfs;
    std::optional<std::uint64_t> writableLayerSize;  ///< in bytes; absent: half of the job's or node's
    bool mountHome = false;
    bool mountWorkingDirectory = false;
    std::vector<oci::MountRequest> siteMounts;
    std::vector<SiteDevice> siteDevices;
    SiteEnvironment environment;
    UserMountRules userMounts;
    std::optional<std::string> seccompProfile;
    std::optional<std::string> apparmorProfile;
    std::optional<std::string> selinuxLabel;
    std::optional<std::string> selinuxMountLabel;
    std::optional<ContainersPolicy> containersPolicy;
    /// Key `containersRegistries.dPath` (the dot is part of the name)
    std::optional<std::string> containersRegistriesDPath;
    std::optional<std::string> defaultMpiType;
    std::uint64_t lockTimeoutMs = 60000;        ///< repositoryMetadataLockTimings.timeoutMs
    std::uint64_t lockWarningMs = 10000;        ///< repositoryMetadataLockTimings.warningMs
    std::uint64_t registryTimeoutMs = 600'000;  ///< registryTimings.timeoutMs
    std::uint64_t registryWarningMs = 20'000;   ///< registryTimings.warningMs
    std::optional<bool> enablePmixV3Support;    ///< absent: only for the steps of Slurm's PMIx
    ImageMountPolicy imageMount = ImageMountPolicy::kernel;
    ImageMountPolicy dataMount = ImageMountPolicy::kernelForRootOwned;
    /// Key `cdiSpecDirs`: directories of CDI files, by ascending priority; empty: no CDI devices.
    std::vector<std::string> cdiSpecDirs{"/etc/cdi", "/var/run/cdi"};
    /// Key `edfSystemSearchPath`: directories searched for environment definition files after the user's own.
    std::vector<std::string> edfSystemSearchPath{"/etc/edf"};
    /// Key `broadcast.directory`: on every node, where `sarus bcast` keeps copies; absent: tempDir.
    std::optional<std::string> broadcastDir;
    /// Key `broadcast.minNodes`: `sarus run` broadcasts images in jobs with so many nodes; absent: never.
    std::optional<std::uint64_t> broadcastMinNodes;
    /// Key `broadcast.patienceMs`: how long a container waits for a copy that does not grow.
    std::uint64_t broadcastPatienceMs = 30'000;
    ContainerStorageSettings containerStorage;
    bool containerPerTask = false;
    bool pyxisVariables = true;
    bool allowRootless =
        true;  ///< key `allowRootless`: whether containers may start without the set-user-ID starter
    AuditFacility auditLog = AuditFacility::authpriv;
    ImagePolicy imagePolicy;
    ContainerLimits containerLimits;
    // Whether the set-user-ID starter accepts `--mount`, `--device` and `sarus exec`.
    bool allowMount = true;
    bool allowDevice = true;
    bool allowExec = true;
    std::vector<std::string> privilegedGroups;  ///< who may use the set-user-ID starter; empty: everybody
    /// With variables, which the user's own process expands; absent: below localRepositoryBaseDir.
    std::optional<std::string> userRepositoryDir;
    PruneAfterPull pruneAfterPull;
    std::vector<std::string> imageAnnotations;  ///< callers' annotations that images may set, too
};

/// Parses and validates the text of sarus.json. Ignores unknown keys where Sarus 1.7 did. For others, wrong
/// types, missing required keys and bad values, throws Error naming `fileName`, the key's path and the rule.
SiteConfig parseSiteConfig(std::string_view json, std::string_view fileName);

/// A configuration with all its problems. The keys that have none hold their values.
struct SiteConfigReview {
    SiteConfig config;
    std::vector<Error> problems;  ///< "FILE:LINE: ..."
    std::vector<Error> warnings;  ///< keys that occur twice, or that are unknown and ignored
    std::vector<Error> notes;     ///< keys without an effect
};

/// Like parseSiteConfig(), without stopping at the first problem.
SiteConfigReview reviewSiteConfig(std::string_view json, std::string_view fileName);

}  // namespace sarus::engine
