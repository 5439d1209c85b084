#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::engine {

/// One entry of `siteMounts`.
struct SiteMount {
    std::string source;
    std::string destination;
    bool readonly = false;
};

/// One entry of `siteDevices`.
struct SiteDevice {
    std::string source;
    std::string destination;  ///< equals source where the configuration names none
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

/// How the set-user-ID starter mounts an image (key `imageMount`). SECURITY.md states the risk of each.
enum class ImageMountPolicy { kernel, fuse, kernelForRootOwned };

struct ContainersPolicy {
    std::string path;
    bool enforce = false;
};

/// Bounds on what a pulled or loaded image may unpack to (key `imageLimits`); absent: the image builder's own.
struct ImageLimits {
    std::optional<std::uint64_t> maxUnpackedSize;  ///< bytes
    std::optional<std::uint64_t> maxEntries;
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
    std::vector<SiteMount> siteMounts;
    std::vector<SiteDevice> siteDevices;
    SiteEnvironment environment;
    UserMountRules userMounts;
    std::optional<std::string> seccompProfile;
    std::optional<std::string> apparmorProfile;
    std::optional<std::string> selinuxLabel;
    std::optional<std::string> selinuxMountLabel;
    std::optional<ContainersPolicy> containersPolicy;
    std::optional<std::string> containersRegistriesDPath;  ///< key `containersRegistries.dPath` (the dot is part of the name)
    std::optional<std::string> defaultMpiType;
    std::uint64_t lockTimeoutMs = 60000;        ///< repositoryMetadataLockTimings.timeoutMs
    std::uint64_t lockWarningMs = 10000;        ///< repositoryMetadataLockTimings.warningMs
    std::uint64_t registryTimeoutMs = 600'000;  ///< registryTimings.timeoutMs
    std::uint64_t registryWarningMs = 20'000;   ///< registryTimings.warningMs
    bool enablePmixV3Support = false;
    ImageMountPolicy imageMount = ImageMountPolicy::kernel;
    /// Key `cdiSpecDirs`: where CDI files lie, by ascending priority; empty: there are no CDI devices.
    std::vector<std::string> cdiSpecDirs{"/etc/cdi", "/var/run/cdi"};
    /// Key `edfSystemSearchPath`: where environment definition files are looked for after the user's own directories.
    std::vector<std::string> edfSystemSearchPath{"/etc/edf"};
    bool allowRootless = true;  ///< key `allowRootless`: whether containers may start without the set-user-ID starter
};

/// Parses and validates the text of sarus.json. Throws Error which names `fileName`, the key's path and what was expected,
/// for wrong types, missing required keys, bad values and unknown keys (with "did you mean").
SiteConfig parseSiteConfig(std::string_view json, std::string_view fileName);

}  // namespace sarus::engine
