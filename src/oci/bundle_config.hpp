#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::oci {

/// A mount as config.json has it; `type` and the options are left out of the file where they are absent.
struct BundleMount {
    std::string destination;
    std::string source;
    std::optional<std::string> type;
    std::optional<std::vector<std::string>> options;
};

/// A device node as `linux.devices` has it.
struct BundleDevice {
    std::string path;
    char type = 'c';  ///< 'c', 'b', 'u' or 'p'
    std::int64_t major = 0;
    std::int64_t minor = 0;
    std::optional<mode_t> fileMode;
    std::optional<uid_t> uid;
    std::optional<gid_t> gid;
};

/// A rule of `linux.resources.devices`; absent numbers mean all.
struct BundleDeviceRule {
    bool allow = true;
    char type = 'c';  ///< 'a' (all), 'c' or 'b'
    std::optional<std::int64_t> major;
    std::optional<std::int64_t> minor;
    std::string access = "rwm";
};

/// One program of `hooks.<stage>`.
struct BundleHook {
    std::string path;
    std::vector<std::string> args;  ///< includes argv[0]
    std::vector<std::string> env;
    std::optional<std::uint64_t> timeout;  ///< seconds
};

/// `linux.intelRdt`; empty texts are left out.
struct BundleIntelRdt {
    std::string closId;
    std::string l3CacheSchema;
    std::string memBwSchema;
};

struct BundleUser {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> additionalGids;
};

struct BundleIdMapping {
    std::uint32_t containerId = 0;
    std::uint32_t hostId = 0;
    std::uint32_t size = 0;
};

/// A bundle's config.json (runtime-spec, config.md) which somebody else wrote: what hooks read of it, and the changes that
/// a precreate hook makes. What is not changed is written as it was read: unknown keys, the order of the keys, and integers
/// up to 64 bits; an integer that would lose digits is refused when the text is read.
///
/// Readers throw Error, naming the key, if a value has a type which the specification does not allow; absent keys read as empty.
/// Writers create the objects and arrays on the way where they are absent, and throw Error where something else is there.
class BundleConfig {
public:
    /// `name` is for messages (a path, "standard input"). Throws Error if the text is not one JSON object.
    static BundleConfig parse(std::string_view json, std::string_view name);
    BundleConfig(BundleConfig&&) noexcept;
    BundleConfig& operator=(BundleConfig&&) noexcept;
    ~BundleConfig();

    /// Compact JSON without a final newline.
    std::string serialize() const;

    /// `root.path`, relative to the bundle unless absolute; empty if absent.
    std::string rootPath() const;
    /// `process.env` in order; entries which are not strings are left out.
    std::vector<std::string> environment() const;
    /// The value that the process will see: the last entry of that name.
    std::optional<std::string> variable(std::string_view name) const;
    std::vector<std::string> arguments() const;
    BundleUser user() const;
    std::map<std::string, std::string> annotations() const;
    std::vector<BundleMount> mounts() const;
    std::vector<BundleDevice> devices() const;
    /// Of `linux.resources.devices`, in order. An absent or empty type means all, an absent access "rwm".
    std::vector<BundleDeviceRule> deviceRules() const;
    std::vector<BundleIdMapping> uidMappings() const;
    std::vector<BundleIdMapping> gidMappings() const;
    std::optional<std::string> cgroupsPath() const;
    /// Whether `linux.namespaces` asks for a namespace of this type ("mount", "user", ...).
    bool hasNamespace(std::string_view type) const;

    /// Replaces the last variable of that name in its place, or appends one.
    void setVariable(std::string_view name, std::string_view value);
    void appendMount(const BundleMount& mount);
    /// Removes the mounts on exactly this destination; returns how many there were.
    std::size_t removeMounts(std::string_view destination);
    /// Replaces a device of the same path, or appends it.
    void setDevice(const BundleDevice& device);
    void appendDeviceRule(const BundleDeviceRule& rule);
    /// Adds the group to `process.user.additionalGids` unless it is there.
    void addAdditionalGid(gid_t gid);
    void appendHook(std::string_view stage, const BundleHook& hook);
    /// Replaces what is there.
    void setIntelRdt(const BundleIntelRdt& rdt);
    void setAnnotation(std::string_view key, std::string_view value);

private:
    struct Tree;
    explicit BundleConfig(std::unique_ptr<Tree> contents);
    std::unique_ptr<Tree> tree;
};

}  // namespace sarus::oci
