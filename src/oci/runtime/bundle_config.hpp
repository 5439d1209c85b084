#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oci/runtime/runtime_config.hpp"

namespace sarus::oci {

/// A bundle's config.json (runtime-spec, config.md) written by another program: what hooks read of it, and
/// the changes that a precreate hook makes. Everything else is written as it was read: unknown keys, the
/// order of the keys, and integers up to 64 bits. Integers that would lose digits are refused on reading.
///
/// Readers throw Error, naming the file and the key, if the specification does not allow the type of a value;
/// absent keys read as empty. Writers create missing objects and arrays on the way, and throw Error if
/// something else is there.
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
    /// The value of `process.env` that the process will see: the last entry of that name.
    std::optional<std::string> variable(std::string_view name) const;
    /// `process.env`, in order.
    std::vector<std::string> environment() const;
    std::vector<std::string> arguments() const;
    /// `process.cwd`; empty if absent.
    std::string workingDirectory() const;
    RuntimeUser user() const;
    std::vector<RuntimeRlimit> rlimits() const;
    /// In order. An absent source is empty.
    std::vector<RuntimeMount> mounts() const;
    std::map<std::string, std::string> annotations() const;
    /// Of `linux.resources.devices`, in order. An absent or empty type means all, an absent access "rwm".
    std::vector<RuntimeDeviceRule> deviceRules() const;
    std::vector<RuntimeIdMapping> uidMappings() const;
    std::vector<RuntimeIdMapping> gidMappings() const;
    /// Whether `linux.namespaces` requests a namespace of this type ("mount", "user", ...).
    bool hasNamespace(std::string_view type) const;

    /// Replaces the last variable of that name in its place, or appends one.
    void setVariable(std::string_view name, std::string_view value);
    /// Inserts the mount before the first one whose destination lies below its own, because it would hide
    /// that one; otherwise at the end.
    void addMount(const RuntimeMount& mount);
    /// Replaces a device of the same path, or appends it.
    void setDevice(const RuntimeDevice& device);
    void appendDeviceRule(const RuntimeDeviceRule& rule);
    /// Adds the group to `process.user.additionalGids` unless it is there.
    void addAdditionalGid(gid_t gid);
    void appendHook(std::string_view stage, const RuntimeHook& hook);
    /// Replaces the existing values. Omits empty texts and keys that older runtimes would ignore.
    void setIntelRdt(const RuntimeIntelRdt& rdt);

private:
    struct Tree;
    explicit BundleConfig(std::unique_ptr<Tree> contents);
    std::unique_ptr<Tree> tree;
};

}  // namespace sarus::oci
