#include "engine/site_config.hpp"

#include <array>
#include <cmath>
#include <span>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/device_request.hpp"
#include "oci/json_node.hpp"

// etc/sarus.schema.json states the same rules for editors and deployment tools; a test holds the two together.

namespace sarus::engine {

namespace {

using Json = nlohmann::json;
using Node = oci::JsonNode<Json>;

std::string nonEmptyString(const Node& node) {
    constexpr std::string_view expected = "a non-empty string";
    auto text = node.string(expected);
    if (text.empty()) {
        node.fail(expected);
    }
    return text;
}

std::string plainFileName(const Node& node) {
    constexpr std::string_view expected = "a plain file name (no '/')";
    auto name = node.string(expected);
    const auto isForbidden = [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
    if (name.empty() || name == "." || name == ".." || std::any_of(name.begin(), name.end(), isForbidden)) {
        node.fail(expected);
    }
    return name;
}

/// An integer from 1 to `largest`; 1000.0 is an integer to JSON schemas, too.
std::uint64_t positiveInteger(const Node& node, std::uint64_t largest) {
    const double number = node.value().is_number() ? node.value().get<double>() : 0;
    if (number < 1 || number > static_cast<double>(largest) || std::floor(number) != number) {
        node.fail(cat("an integer between 1 and ", largest));
    }
    return static_cast<std::uint64_t>(number);
}

constexpr std::uint64_t largestInt = 2147483647;
/// 2^53 - 1: what every JSON implementation can hold exactly.
constexpr std::uint64_t largestExact = 9007199254740991;

/// One of the words of a table {word, value}.
template <typename Value, std::size_t size>
Value oneOf(const Node& node, const std::array<std::pair<std::string_view, Value>, size>& table) {
    std::string expected;
    for (const auto& [word, meaning] : table) {
        if (node.value().is_string() && node.value().get_ref<const std::string&>() == word) {
            return meaning;
        }
        expected += cat(expected.empty() ? "'" : " or '", word, "'");
    }
    node.fail(expected);
}

template <typename Target>
struct Key {
    std::string_view name;
    bool required;
    void (*read)(const Node&, Target&);
};

template <typename Target>
[[noreturn]] void failUnknownKey(const Node& object, std::string_view name, std::span<const Key<Target>> keys) {
    std::vector<std::string> known;
    for (const auto& key : keys) {
        known.emplace_back(key.name);
    }
    const auto guess = closestMatch(name, known);
    object.reject(cat("unknown key '", printable(name), "'"), guess ? cat("Did you mean '", *guess, "'?") : std::string());
}

/// Reads an object by its table of keys: all required ones are there, no others are, each value is handed to its reader.
template <typename Target>
Target readObject(const Node& object, std::span<const Key<Target>> keys) {
    if (!object.value().is_object()) {
        object.fail("an object");
    }
    Target target;
    for (const auto& item : object.value().items()) {
        const auto& name = item.key();
        const auto key = std::find_if(keys.begin(), keys.end(), [&](const auto& candidate) { return candidate.name == name; });
        if (key == keys.end()) {
            failUnknownKey(object, name, keys);
        }
        key->read(object.member(name, item.value()), target);
    }
    for (const auto& key : keys) {
        if (key.required && !object.value().contains(key.name)) {
            object.reject(cat("the required key '", key.name, "' is missing"));
        }
    }
    return target;
}

std::string readVariableName(const Node& node) {
    constexpr std::string_view expected = "the name of an environment variable";
    auto name = node.string(expected);
    if (name.empty() || name.find('=') != std::string::npos) {
        node.fail(expected);
    }
    return name;
}

std::map<std::string, std::string> readVariables(const Node& object) {
    if (!object.value().is_object()) {
        object.fail("an object with string values");
    }
    std::map<std::string, std::string> variables;
    for (const auto& [name, content] : object.value().items()) {
        if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos) {
            object.reject(cat("'", printable(name), "' cannot be the name of an environment variable"));
        }
        variables[name] = object.member(name, content).string();
    }
    return variables;
}

struct MountFlags {
    bool readonly = false;
};

constexpr std::array mountFlagKeys{
    // The documentation wants an empty string; the reference engine accepted any.
    Key<MountFlags>{"readonly", false,
                    [](const Node& node, MountFlags& flags) {
                        node.string("a string (empty): the key's presence makes the mount read-only");
                        flags.readonly = true;
                    }},
};

constexpr std::array<std::pair<std::string_view, int>, 1> mountTypes{{{"bind", 0}}};

constexpr std::array siteMountKeys{
    Key<SiteMount>{"type", true, [](const Node& node, SiteMount&) { oneOf(node, mountTypes); }},
    Key<SiteMount>{"source", true, [](const Node& node, SiteMount& mount) { mount.source = node.absolutePath(); }},
    Key<SiteMount>{"destination", true, [](const Node& node, SiteMount& mount) { mount.destination = node.absolutePath(); }},
    Key<SiteMount>{
        "flags", false,
        [](const Node& node, SiteMount& mount) { mount.readonly = readObject<MountFlags>(node, mountFlagKeys).readonly; }},
};

constexpr std::array siteDeviceKeys{
    Key<SiteDevice>{"source", true, [](const Node& node, SiteDevice& device) { device.source = node.absolutePath(); }},
    Key<SiteDevice>{"destination", false, [](const Node& node, SiteDevice& device) { device.destination = node.absolutePath(); }},
    Key<SiteDevice>{"access", false,
                    [](const Node& node, SiteDevice& device) {
                        constexpr std::string_view expected = "a combination of the characters 'rwm' without repetition";
                        device.access = node.string(expected);
                        if (!oci::isDeviceAccess(device.access)) {
                            node.fail(expected);
                        }
                    }},
};

constexpr std::array environmentKeys{
    Key<SiteEnvironment>{"set", false, [](const Node& node, SiteEnvironment& env) { env.set = readVariables(node); }},
    Key<SiteEnvironment>{"prepend", false, [](const Node& node, SiteEnvironment& env) { env.prepend = readVariables(node); }},
    Key<SiteEnvironment>{"append", false, [](const Node& node, SiteEnvironment& env) { env.append = readVariables(node); }},
    Key<SiteEnvironment>{"unset", false,
                         [](const Node& node, SiteEnvironment& env) {
                             env.unset = node.list("a list of names of environment variables", readVariableName);
                         }},
};

std::vector<std::string> readPaths(const Node& node) {
    return node.list("a list of absolute paths", [](const Node& element) { return element.absolutePath(); });
}

constexpr std::array userMountKeys{
    Key<UserMountRules>{"notAllowedPrefixesOfPath", false,
                        [](const Node& node, UserMountRules& rules) { rules.notAllowedPrefixesOfPath = readPaths(node); }},
    Key<UserMountRules>{"notAllowedPaths", false,
                        [](const Node& node, UserMountRules& rules) { rules.notAllowedPaths = readPaths(node); }},
};

constexpr std::array containersPolicyKeys{
    Key<ContainersPolicy>{"path", true, [](const Node& node, ContainersPolicy& policy) { policy.path = node.absolutePath(); }},
    Key<ContainersPolicy>{"enforce", false, [](const Node& node, ContainersPolicy& policy) { policy.enforce = node.boolean(); }},
};

/// A time to give up and a time to warn.
struct Timings {
    std::optional<std::uint64_t> timeoutMs;
    std::optional<std::uint64_t> warningMs;
};

constexpr std::array timingKeys{
    Key<Timings>{"timeoutMs", false, [](const Node& node, Timings& t) { t.timeoutMs = positiveInteger(node, largestInt); }},
    Key<Timings>{"warningMs", false, [](const Node& node, Timings& t) { t.warningMs = positiveInteger(node, largestInt); }},
};

constexpr std::array imageLimitKeys{
    Key<ImageLimits>{"maxUnpackedSize", false,
                     [](const Node& n, ImageLimits& limits) { limits.maxUnpackedSize = positiveInteger(n, largestExact); }},
    Key<ImageLimits>{"maxEntries", false,
                     [](const Node& n, ImageLimits& limits) { limits.maxEntries = positiveInteger(n, largestExact); }},
};

constexpr std::array<std::pair<std::string_view, RamFilesystem>, 2> ramFilesystems{
    {{"tmpfs", RamFilesystem::tmpfs}, {"ramfs", RamFilesystem::ramfs}}};

constexpr std::array<std::pair<std::string_view, ImageMountPolicy>, 3> imageMountPolicies{
    {{"kernel", ImageMountPolicy::kernel},
     {"fuse", ImageMountPolicy::fuse},
     {"kernel-for-root-owned", ImageMountPolicy::kernelForRootOwned}}};

constexpr std::array siteConfigKeys{
    Key<SiteConfig>{"$schema", false, [](const Node& node, SiteConfig&) { node.string(); }},  // for editors
    Key<SiteConfig>{"securityChecks", true, [](const Node& n, SiteConfig& c) { c.securityChecks = n.boolean(); }},
    Key<SiteConfig>{"OCIBundleDir", true, [](const Node& n, SiteConfig& c) { c.ociBundleDir = n.absolutePath(); }},
    Key<SiteConfig>{"rootfsFolder", true, [](const Node& n, SiteConfig& c) { c.rootfsFolder = plainFileName(n); }},
    Key<SiteConfig>{"prefixDir", true, [](const Node& n, SiteConfig& c) { c.prefixDir = n.absolutePath(); }},
    Key<SiteConfig>{"tempDir", true, [](const Node& n, SiteConfig& c) { c.tempDir = n.absolutePath(); }},
    Key<SiteConfig>{"localRepositoryBaseDir", true,
                    [](const Node& n, SiteConfig& c) { c.localRepositoryBaseDir = n.absolutePath(); }},
    Key<SiteConfig>{"centralizedRepositoryDir", false,
                    [](const Node& n, SiteConfig& c) { c.centralizedRepositoryDir = n.absolutePath(); }},
    Key<SiteConfig>{"hooksDir", false, [](const Node& n, SiteConfig& c) { c.hooksDir = n.absolutePath(); }},
    Key<SiteConfig>{"skopeoPath", true, [](const Node& n, SiteConfig& c) { c.skopeoPath = n.absolutePath(); }},
    Key<SiteConfig>{"umociPath", false, [](const Node& n, SiteConfig& c) { c.umociPath = n.absolutePath(); }},
    Key<SiteConfig>{"mksquashfsPath", false, [](const Node& n, SiteConfig& c) { c.mksquashfsPath = n.absolutePath(); }},
    Key<SiteConfig>{"mksquashfsOptions", false, [](const Node& n, SiteConfig& c) { c.mksquashfsOptions = n.string(); }},
    Key<SiteConfig>{"imageLimits", false,
                    [](const Node& n, SiteConfig& c) { c.imageLimits = readObject<ImageLimits>(n, imageLimitKeys); }},
    Key<SiteConfig>{"initPath", false, [](const Node& n, SiteConfig& c) { c.initPath = n.absolutePath(); }},
    Key<SiteConfig>{"runcPath", true, [](const Node& n, SiteConfig& c) { c.runcPath = n.absolutePath(); }},
    Key<SiteConfig>{"ramFilesystemType", true,
                    [](const Node& n, SiteConfig& c) { c.ramFilesystemType = oneOf(n, ramFilesystems); }},
    Key<SiteConfig>{"siteMounts", false,
                    [](const Node& n, SiteConfig& c) {
                        c.siteMounts = n.list("a list of mounts",
                                              [](const Node& element) { return readObject<SiteMount>(element, siteMountKeys); });
                    }},
    Key<SiteConfig>{"siteDevices", false,
                    [](const Node& n, SiteConfig& c) {
                        c.siteDevices = n.list("a list of devices", [](const Node& element) {
                            auto device = readObject<SiteDevice>(element, siteDeviceKeys);
                            if (device.destination.empty()) {
                                device.destination = device.source;
                            }
                            return device;
                        });
                    }},
    Key<SiteConfig>{"environment", false,
                    [](const Node& n, SiteConfig& c) { c.environment = readObject<SiteEnvironment>(n, environmentKeys); }},
    Key<SiteConfig>{"userMounts", false,
                    [](const Node& n, SiteConfig& c) { c.userMounts = readObject<UserMountRules>(n, userMountKeys); }},
    Key<SiteConfig>{"seccompProfile", false, [](const Node& n, SiteConfig& c) { c.seccompProfile = n.absolutePath(); }},
    Key<SiteConfig>{"apparmorProfile", false, [](const Node& n, SiteConfig& c) { c.apparmorProfile = nonEmptyString(n); }},
    Key<SiteConfig>{"selinuxLabel", false, [](const Node& n, SiteConfig& c) { c.selinuxLabel = nonEmptyString(n); }},
    Key<SiteConfig>{"selinuxMountLabel", false, [](const Node& n, SiteConfig& c) { c.selinuxMountLabel = nonEmptyString(n); }},
    Key<SiteConfig>{
        "containersPolicy", false,
        [](const Node& n, SiteConfig& c) { c.containersPolicy = readObject<ContainersPolicy>(n, containersPolicyKeys); }},
    Key<SiteConfig>{"containersRegistries.dPath", false,
                    [](const Node& n, SiteConfig& c) { c.containersRegistriesDPath = n.absolutePath(); }},
    Key<SiteConfig>{"defaultMPIType", false, [](const Node& n, SiteConfig& c) { c.defaultMpiType = nonEmptyString(n); }},
    Key<SiteConfig>{"repositoryMetadataLockTimings", false,
                    [](const Node& n, SiteConfig& c) {
                        const auto timings = readObject<Timings>(n, timingKeys);
                        c.lockTimeoutMs = timings.timeoutMs.value_or(c.lockTimeoutMs);
                        c.lockWarningMs = timings.warningMs.value_or(c.lockWarningMs);
                    }},
    Key<SiteConfig>{"registryTimings", false,
                    [](const Node& n, SiteConfig& c) {
                        const auto timings = readObject<Timings>(n, timingKeys);
                        c.registryTimeoutMs = timings.timeoutMs.value_or(c.registryTimeoutMs);
                        c.registryWarningMs = timings.warningMs.value_or(c.registryWarningMs);
                    }},
    Key<SiteConfig>{"enablePMIxv3Support", false, [](const Node& n, SiteConfig& c) { c.enablePmixV3Support = n.boolean(); }},
    Key<SiteConfig>{"imageMount", false, [](const Node& n, SiteConfig& c) { c.imageMount = oneOf(n, imageMountPolicies); }},
    Key<SiteConfig>{"cdiSpecDirs", false, [](const Node& n, SiteConfig& c) { c.cdiSpecDirs = readPaths(n); }},
    Key<SiteConfig>{"edfSystemSearchPath", false, [](const Node& n, SiteConfig& c) { c.edfSystemSearchPath = readPaths(n); }},
    Key<SiteConfig>{"allowRootless", false, [](const Node& n, SiteConfig& c) { c.allowRootless = n.boolean(); }},
};

}  // namespace

SiteConfig parseSiteConfig(std::string_view json, std::string_view fileName) {
    const auto document = oci::parseJson<Json>(json, fileName);
    return readObject<SiteConfig>(Node(document, "", fileName), siteConfigKeys);
}

}  // namespace sarus::engine
