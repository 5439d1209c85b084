#include "engine/site_config.hpp"

#include "base/text.hpp"
#include "engine/old_configuration.hpp"
#include "engine/site_config_values.hpp"
#include "oci/json/json_lines.hpp"

namespace sarus::engine {

namespace {

using namespace site_config;

// The parser, the JSON schema and the manual page sarus.json(5) take everything about a key from these
// tables.

constexpr std::array mountTypes{std::pair<std::string_view, bool>{"bind", false},
                                std::pair<std::string_view, bool>{"squashfs", true}};

struct IgnoredText : Text {
    template <typename Target>
    static void read(const Node& node, Target&) {
        node.string();
    }
};

/// Only the key's presence counts. The documentation requires an empty string; the reference engine accepted
/// any.
struct Mark : Text {
    static void read(const Node& node, bool& flag) {
        node.string("a string (empty): the key's presence makes the mount read-only");
        flag = true;
    }
};

constexpr std::array mountFlagKeys{
    key<Mark, &oci::MountRequest::readonly>("readonly", optional,
                                            "An empty string makes the mount read-only."),
    key<Mark, &oci::MountRequest::readonly>("ro", optional, "The same as `readonly`."),
};

constexpr std::array siteMountKeys{
    key<OneOf<mountTypes>, &oci::MountRequest::isSquashfs>(
        "type", required, "`squashfs`: the source is a squashfs or SIF file, whose content is mounted."),
    key<Path, &oci::MountRequest::source>("source", required, "The file or directory on the node."),
    key<Path, &oci::MountRequest::destination>("destination", required, "Its place in containers."),
    // A misspelt `readonly` would make the mount writable.
    keyOf<oci::MountRequest, Object<mountFlagKeys, UnknownKeys::ignoredUnlessMisspelt>>(
        "flags", optional, "Options of the mount."),
};
constexpr std::string_view listOfMounts = "a list of mounts";

constexpr std::array siteDeviceKeys{
    key<Path, &SiteDevice::source>("source", required, "The device on the node."),
    key<Path, &SiteDevice::destination>("destination", optional,
                                        "Its place in containers (default: the same path)."),
    key<DeviceAccess, &SiteDevice::access>("access", optional, "Read, write and mknod access."),
};
constexpr std::string_view listOfDevices = "a list of devices";

constexpr std::array environmentKeys{
    key<Variables, &SiteEnvironment::set>("set", optional, "Variables with their values."),
    key<Variables, &SiteEnvironment::prepend>("prepend", optional,
                                              "Values to put in front of lists separated by colons."),
    key<Variables, &SiteEnvironment::append>("append", optional,
                                             "Values to put behind lists separated by colons."),
    key<VariableNames, &SiteEnvironment::unset>("unset", optional, "Variables to remove."),
};

constexpr std::array userMountKeys{
    key<Paths, &UserMountRules::notAllowedPrefixesOfPath>("notAllowedPrefixesOfPath", optional,
                                                          "These directories, and everything below them."),
    key<Paths, &UserMountRules::notAllowedPaths>("notAllowedPaths", optional, "These paths themselves."),
};

constexpr std::array containersPolicyKeys{
    key<Path, &ContainersPolicy::path>(
        "path", required, "Policy file that says which images users without their own policy may pull."),
    key<Boolean, &ContainersPolicy::enforce>("enforce", optional, "Whether the file applies to all users."),
};

constexpr std::array lockTimingKeys{
    key<Milliseconds, &SiteConfig::lockTimeoutMs>("timeoutMs", optional,
                                                  "After this time the command fails."),
    key<Milliseconds, &SiteConfig::lockWarningMs>("warningMs", optional,
                                                  "After this time the command warns that it waits."),
};

constexpr std::array registryTimingKeys{
    key<Milliseconds, &SiteConfig::registryTimeoutMs>("timeoutMs", optional, "After this time a pull fails."),
    key<Milliseconds, &SiteConfig::registryWarningMs>("warningMs", optional,
                                                      "After this time a pull warns that it waits, and again "
                                                      "after twice that time, four times, and so on."),
};

constexpr std::array imageLimitKeys{
    key<Size, &ImageLimits::maxUnpackedSize>(
        "maxUnpackedSize", optional,
        "Bytes of all layers together, including holes of sparse files (default: 1 TiB)."),
    key<Size, &ImageLimits::maxEntries>("maxEntries", optional,
                                        "Entries of all layers together (default: 20 million)."),
};

constexpr std::array broadcastKeys{
    key<Path, &SiteConfig::broadcastDir>(
        "directory", optional,
        "Directory of each node for the copies (default: the value of `tempDir`). Everybody must be able to "
        "write there, as in /tmp. On tmpfs, copies use memory."),
    key<Size, &SiteConfig::broadcastMinNodes>(
        "minNodes", optional,
        "From how many nodes of a job on `sarus run` broadcasts images without `--bcast` (default: never)."),
    key<Milliseconds, &SiteConfig::broadcastPatienceMs>(
        "patienceMs", optional,
        "A container that waits for its copy uses the shared file if the copy does not grow for this time."),
};

constexpr std::array containerScopes{std::pair<std::string_view, bool>{"job", true},
                                     std::pair<std::string_view, bool>{"global", false}};

constexpr std::array containerStorageKeys{
    key<Path, &ContainerStorageSettings::directory>(
        "directory", own,
        "Directory of each node for them (default: the value of `tempDir`), on a local filesystem that can "
        "hold the upper layer of an overlay, such as ext4 or XFS. On tmpfs, they use memory. Only root may "
        "be "
        "able to change it, except for a directory like /tmp; for rootless containers everybody must be able "
        "to write there."),
    key<Size, &ContainerStorageSettings::maxSize>(
        "maxSize", own, "Bytes that a container may hold when it is entered again (default: no limit)."),
    key<OneOf<containerScopes>, &ContainerStorageSettings::perJob>(
        "scope", own,
        "`job` (the default): a container that is made in a job belongs to it, and goes when the job is "
        "over. "
        "`global`: it stays until its user removes it, and names of `srun --container-name` mean the same "
        "container in all jobs of the user."),
};

constexpr std::array ramFilesystems{
    std::pair<std::string_view, RamFilesystem>{"tmpfs", RamFilesystem::tmpfs},
    std::pair<std::string_view, RamFilesystem>{"ramfs", RamFilesystem::ramfs}};

constexpr std::array imageMountPolicies{
    std::pair<std::string_view, ImageMountPolicy>{"kernel", ImageMountPolicy::kernel},
    std::pair<std::string_view, ImageMountPolicy>{"fuse", ImageMountPolicy::fuse},
    std::pair<std::string_view, ImageMountPolicy>{"kernel-for-root-owned",
                                                  ImageMountPolicy::kernelForRootOwned}};

constexpr std::array auditFacilities{
    std::pair<std::string_view, AuditFacility>{"off", AuditFacility::off},
    std::pair<std::string_view, AuditFacility>{"auth", AuditFacility::auth},
    std::pair<std::string_view, AuditFacility>{"authpriv", AuditFacility::authpriv},
    std::pair<std::string_view, AuditFacility>{"daemon", AuditFacility::daemon},
    std::pair<std::string_view, AuditFacility>{"user", AuditFacility::user},
    std::pair<std::string_view, AuditFacility>{"local0", AuditFacility::local0},
    std::pair<std::string_view, AuditFacility>{"local1", AuditFacility::local1},
    std::pair<std::string_view, AuditFacility>{"local2", AuditFacility::local2},
    std::pair<std::string_view, AuditFacility>{"local3", AuditFacility::local3},
    std::pair<std::string_view, AuditFacility>{"local4", AuditFacility::local4},
    std::pair<std::string_view, AuditFacility>{"local5", AuditFacility::local5},
    std::pair<std::string_view, AuditFacility>{"local6", AuditFacility::local6},
    std::pair<std::string_view, AuditFacility>{"local7", AuditFacility::local7}};

constexpr std::string_view listOfAccounts = "a list of names or numbers, as strings";
using Accounts = ListOf<NonEmptyText, listOfAccounts>;

constexpr std::string_view listOfAnnotationKeys = "a list of keys of annotations";
using AnnotationKeys = ListOf<NonEmptyText, listOfAnnotationKeys>;

constexpr std::array imagePolicyKeys{
    key<Accounts, &ImagePolicy::owners>("owners", own,
                                        "The image file belongs to one of these users (names or ids)."),
    key<Accounts, &ImagePolicy::groups>("groups", own,
                                        "The image file belongs to one of these groups (names or ids)."),
    key<Paths, &ImagePolicy::paths>(
        "paths", own,
        "The image file is in one of these directories, or below; they are named without links."),
    key<Path, &ImagePolicy::digestsFile>("digestsFile", own,
                                         "The digest of the image is in this file of root's, as the first "
                                         "word of a line: `fsverity-sha256:` and 64 "
                                         "hexadecimal digits. Lines that begin with # are comments."),
    key<Boolean, &ImagePolicy::verify>(
        "verify", own, "Whether the image must have the digest that was recorded when it was made."),
};

constexpr std::array containerLimitKeys{
    key<Size, &ContainerLimits::perUser>("perUser", own, "Containers of a user on a node, at the same time."),
    key<Size, &ContainerLimits::mounts>("mounts", own, "Mounts of a container that its user asks for."),
};

constexpr std::array pruneAfterPullKeys{
    key<Days, &PruneAfterPull::olderThanDays>(
        "olderThanDays", own, "Images that were not used, and downloads that are older, for this many days."),
    key<Size, &PruneAfterPull::keepBytes>(
        "keepBytes", own,
        "If images and downloads take more bytes than this: the oldest downloads, then the images that were "
        "not used for the longest time. Images used in the last 24 hours stay."),
};

constexpr std::array siteKeys{
    keyOf<SiteConfig, IgnoredText>("$schema", optional, "Ignored; for editors."),
    key<Boolean, &SiteConfig::securityChecks>(
        "securityChecks", required,
        "Whether programs and directories used with privileges, and the file of "
        "`seccompProfile`, must belong to root and be writable only by root."),
    key<Path, &SiteConfig::ociBundleDir>(
        "OCIBundleDir", required,
        "Directory in which Sarus assembles containers, in private mount namespaces."),
    key<FileName, &SiteConfig::rootfsFolder>("rootfsFolder", required,
                                             "Name of the directory of a container's root filesystem."),
    key<Path, &SiteConfig::prefixDir>("prefixDir", required, "Directory of the installation."),
    key<Path, &SiteConfig::tempDir>("tempDir", required, "Default directory for temporary files."),
    key<Path, &SiteConfig::localRepositoryBaseDir>(
        "localRepositoryBaseDir", required,
        "The images of a user are in `<localRepositoryBaseDir>/<user>/.sarus`."),
    key<Path, &SiteConfig::centralizedRepositoryDir>(
        "centralizedRepositoryDir", optional, "Images for all users. Without this key there are none."),
    key<Path, &SiteConfig::hooksDir>("hooksDir", optional, "Directory of the JSON files of hooks."),
    key<Path, &SiteConfig::skopeoPath>("skopeoPath", required, "Path of skopeo, which talks to registries."),
    key<Path, &SiteConfig::umociPath>("umociPath", optional, "Accepted, never run."),
    key<Path, &SiteConfig::mksquashfsPath>("mksquashfsPath", optional, "Accepted, never run."),
    key<Text, &SiteConfig::mksquashfsOptions>(
        "mksquashfsOptions", optional,
        "Options for the squashfs files of images, in the form of mksquashfs, separated by blanks. The "
        "section `OPTIONS OF "
        "MKSQUASHFS` lists them. Any other option is an error when an image is pulled or loaded."),
    key<Object<imageLimitKeys>, &SiteConfig::imageLimits>(
        "imageLimits", own, "Limits on what a pulled or loaded image unpacks to."),
    key<Path, &SiteConfig::initPath>("initPath", optional, "Static init program for `sarus run --init`."),
    key<Path, &SiteConfig::runcPath>("runcPath", required, "The OCI runtime: runc or crun."),
    key<OneOf<ramFilesystems>, &SiteConfig::ramFilesystemType>(
        "ramFilesystemType", required, "Filesystem for files that a container writes."),
    key<Size, &SiteConfig::writableLayerSize>(
        "writableLayerSize", own,
        "Bytes that a container may write to its root filesystem, which is in memory; `df` shows it. Without "
        "the key, half of the node's memory or half of the job's memory limit, whichever is less. Not with "
        "the type ramfs, which has no limit."),
    key<Boolean, &SiteConfig::mountHome>(
        "mountHome", own,
        "Whether containers get the home directory of their user ($HOME), at the same path."),
    key<Boolean, &SiteConfig::mountWorkingDirectory>("mountWorkingDirectory", own,
                                                     "Whether containers get the working directory of `sarus "
                                                     "run`, at the same path. They do not start there."),
    key<ListOf<Object<siteMountKeys, UnknownKeys::ignored>, listOfMounts>, &SiteConfig::siteMounts>(
        "siteMounts", optional, "Mounts in all containers."),
    key<ListOf<Object<siteDeviceKeys, UnknownKeys::ignored>, listOfDevices>, &SiteConfig::siteDevices>(
        "siteDevices", optional, "Devices in all containers."),
    key<Object<environmentKeys, UnknownKeys::ignored>, &SiteConfig::environment>(
        "environment", optional, "Changes to the environment variables of all containers."),
    key<Object<userMountKeys, UnknownKeys::ignoredUnlessMisspelt>, &SiteConfig::userMounts>(
        "userMounts", optional,
        "Destinations that users may not mount on, besides those that Sarus itself refuses."),
    key<Path, &SiteConfig::seccompProfile>(
        "seccompProfile", optional,
        "File with the seccomp section of the runtime configuration. The installation "
        "contains `<prefix>/etc/seccomp/default.json`, and `rootless.json` for installations without "
        "privileges. Without the key there is no filter."),
    key<NonEmptyText, &SiteConfig::apparmorProfile>(
        "apparmorProfile", optional, "AppArmor profile of containers. The node must have loaded it."),
    key<NonEmptyText, &SiteConfig::selinuxLabel>("selinuxLabel", optional,
                                                 "SELinux label of containers' processes."),
    key<NonEmptyText, &SiteConfig::selinuxMountLabel>(
        "selinuxMountLabel", optional,
        "SELinux label of the files in all mounts made for a container: the image, its writable layer, "
        "`/dev`, and mounts of the "
        "OCI runtime. Bound directories keep their own labels."),
    key<Object<containersPolicyKeys, UnknownKeys::ignoredUnlessMisspelt>, &SiteConfig::containersPolicy>(
        "containersPolicy", optional, "The policy of the site for images."),
    key<Path, &SiteConfig::containersRegistriesDPath>(
        "containersRegistries.dPath", optional,
        "Directory with settings for registries (registries.d). The dot is part of the key."),
    key<NonEmptyText, &SiteConfig::defaultMpiType>("defaultMPIType", optional,
                                                   "Type of MPI that `sarus run --mpi` uses by default."),
    keyOf<SiteConfig, Object<lockTimingKeys, UnknownKeys::ignored>>(
        "repositoryMetadataLockTimings", optional,
        "How long, in milliseconds, a command that changes a repository waits for another such command."),
    keyOf<SiteConfig, Object<registryTimingKeys>>(
        "registryTimings", own, "How long, in milliseconds, a pull waits for a registry that sends nothing."),
    key<Boolean, &SiteConfig::enablePmixV3Support>(
        "enablePMIxv3Support", optional,
        "Whether to mount the directories of a PMIx server (versions 2 to 5) into containers, at their own "
        "paths and with the rights of the user: clients and server exchange data through files. Without the "
        "key, containers get the directories that Slurm makes for a step of `srun --mpi=pmix`. With true, "
        "they "
        "also get those that a launcher such as `mpirun` names in variables, and the variables that clients "
        "of "
        "version 3 read. With false, they get none."),
    key<OneOf<imageMountPolicies>, &SiteConfig::imageMount>(
        "imageMount", own,
        "Who parses the filesystem of an image if the starter holds privileges: the kernel, a process of the "
        "user, or the kernel "
        "only for images that belong to root. SECURITY.md states the risk of each."),
    key<OneOf<imageMountPolicies>, &SiteConfig::dataMount>(
        "dataMount", own,
        "The same for squashfs and SIF files that containers get as directories (`--mount=type=squashfs`)."),
    key<Paths, &SiteConfig::cdiSpecDirs>("cdiSpecDirs", own,
                                         "Directories with files of the Container Device Interface, for "
                                         "`sarus run --device vendor.com/class=name`. A device in a "
                                         "later directory hides one of the same name in an earlier one. An "
                                         "empty array disables CDI. Every user may use every "
                                         "device that these files describe."),
    key<Paths, &SiteConfig::edfSystemSearchPath>(
        "edfSystemSearchPath", own,
        "Directories that `sarus run --edf NAME` searches for NAME.toml after the directories of the user."),
    keyOf<SiteConfig, Object<broadcastKeys>>(
        "broadcast", own, "Copies of images on the nodes of Slurm jobs, made by `sarus bcast`."),
    key<Boolean, &SiteConfig::allowRootless>(
        "allowRootless", own, "Whether containers may start if the starter holds no privileges."),
    key<OneOf<auditFacilities>, &SiteConfig::auditLog>(
        "auditLog", own,
        "Facility of syslog for the records of the starter, if it holds privileges: who started what, how it "
        "ended, and what was refused."),
    key<Object<imagePolicyKeys>, &SiteConfig::imagePolicy>(
        "imagePolicy", own,
        "Which images the starter runs if it holds privileges. An image must satisfy every rule that is set, "
        "and the kernel must mount it."),
    key<Object<containerStorageKeys>, &SiteConfig::containerStorage>(
        "containerStorage", own, "What containers keep beyond their end (`sarus run --keep`)."),
    key<Boolean, &SiteConfig::containerPerTask>(
        "containerPerTask", own,
        "Whether each task of a step in a container of Slurm's plugin (`srun --container-image`) has one of "
        "its own. A name is then that of the first task on a node. Without the key, all tasks of the step on "
        "a node run in one container."),
    key<Boolean, &SiteConfig::pyxisVariables>(
        "pyxisVariables", own,
        "Whether `srun` takes variables of Pyxis (`PYXIS_CONTAINER_IMAGE`) for its options. Default: true. "
        "With false, they mean nothing."),
    key<Object<containerLimitKeys>, &SiteConfig::containerLimits>(
        "containerLimits", own, "Limits that the starter enforces if it holds privileges."),
    key<Boolean, &SiteConfig::allowMount>(
        "allowMount", own,
        "Whether users may mount directories of their choice, if the starter holds privileges."),
    key<Boolean, &SiteConfig::allowDevice>("allowDevice", own,
                                           "Whether users may add devices, if the starter holds privileges."),
    key<Boolean, &SiteConfig::allowExec>(
        "allowExec", own, "Whether users may use `sarus exec`, if the starter holds privileges."),
    key<Accounts, &SiteConfig::privilegedGroups>("privilegedGroups", own,
                                                 "Groups (names or ids) whose members may start containers "
                                                 "with the privileges of the starter. Without the key, "
                                                 "everybody may; root always may."),
    key<PathWithVariables, &SiteConfig::userRepositoryDir>(
        "userRepositoryDir", own,
        "The images of a user are in this directory, instead of `<localRepositoryBaseDir>/<user>/.sarus`. "
        "`$USER` is "
        "the name of the user, whatever the environment holds; every other variable, such as `$SCRATCH`, "
        "must be set in the environment of the user. The variable `SARUS_REPOSITORY_DIR` of the user counts "
        "more than this key."),
    key<Object<pruneAfterPullKeys>, &SiteConfig::pruneAfterPull>(
        "pruneAfterPull", own,
        "What `sarus pull` removes at its end from the repository of its user, with the rights of the user. "
        "It never removes the image just pulled, nor images of running containers."),
    key<AnnotationKeys, &SiteConfig::imageAnnotations>(
        "imageAnnotations", own,
        "Annotations `com.hooks.*`, `mps.*` and `podman_hpc.*` that the labels of an image may set besides "
        "those in the reference of the hooks. Whoever makes an image can then start or steer these hooks in "
        "the name of those who run it."),
};

SiteConfig readSiteConfig(const Node& document) {
    SiteConfig config;
    Object<siteKeys, UnknownKeys::ignored>::read(document, config);
    for (auto& device : config.siteDevices) {
        if (device.destination.empty()) {
            device.destination = device.source;
        }
    }
    return config;
}

}  // namespace

SiteConfig parseSiteConfig(std::string_view json, std::string_view fileName) {
    try {
        const auto document = oci::parseJson<Json>(json, fileName);
        return readSiteConfig(Node(document, "", fileName));
    } catch (Error& error) {
        throw error.setId("configuration-invalid");
    }
}

SiteConfigReview reviewSiteConfig(std::string_view json, std::string_view fileName) {
    SiteConfigReview result;
    oci::JsonReview review;
    const auto place = [&](const std::string& key) {
        return cat(printable(fileName), ':', review.lines[key], ": ");
    };
    try {
        const auto document = oci::parseJson<Json>(json, fileName);
        auto found = oci::findJsonLines(json);
        review.lines = std::move(found.lines);
        for (const auto& key : found.twice) {
            result.warnings.emplace_back(
                cat(place(key), key, ": the key is there twice, and the last one counts"),
                "Remove one of them");
        }
        result.config = readSiteConfig(Node(document, "", fileName, &review));
        for (const auto& [key, message, hint] : checkOldConfiguration(json, fileName)) {
            const auto start = place(key);
            const auto quoted = cat('\'', key.substr(key.rfind('.') + 1), '\'');
            const auto isRefused = [&](const Error& problem) {
                const std::string_view text = problem.what();
                return text.starts_with(start) && text.find(quoted) != std::string_view::npos;
            };
            const auto isKnown = std::any_of(siteKeys.begin(), siteKeys.end(),
                                             [&, &name = key](const auto& own) { return own.name == name; });
            if (std::none_of(review.problems.begin(), review.problems.end(), isRefused)) {
                (isKnown ? result.notes : result.warnings).emplace_back(cat(start, key, ": ", message), hint);
            }
        }
    } catch (const Error& error) {
        review.problems.push_back(error);
    }
    result.problems = std::move(review.problems);
    return result;
}

std::vector<KeyDescription> siteConfigKeys() {
    return {siteKeys.begin(), siteKeys.end()};
}

}  // namespace sarus::engine
