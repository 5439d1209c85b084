#include "oci/runtime/bundle_config.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include "oci/json/json_node.hpp"
#include "oci/json/ordered_json.hpp"
#include "oci/runtime/runtime_members.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::ordered_json;
using Node = JsonNode<Json>;
using Keys = std::initializer_list<const char*>;

/// Whether a path lies in a directory, but is not the directory itself.
bool isBelow(std::string_view path, std::string_view directory) {
    while (directory.ends_with('/')) {
        directory.remove_suffix(1);
    }
    return path.size() > directory.size() + 1 && path.starts_with(directory) &&
           path[directory.size()] == '/' &&
           path.find_first_not_of('/', directory.size()) != std::string_view::npos;
}

template <typename Number>
Number number(const Node& node) {
    return static_cast<Number>(node.number(std::numeric_limits<Number>::max(), "a number in range"));
}

std::string string(const Node& node) {
    return node.string();
}

/// The text in a member of an object; nullptr if there is none.
const std::string* textIn(const Json& object, const char* key) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    return object.is_object() && found != object.end() ? found->get_ptr<const std::string*>() : nullptr;
}

bool isVariable(const Json& entry, std::string_view name) {
    const auto* text = entry.get_ptr<const std::string*>();
    return text != nullptr && text->size() > name.size() && text->starts_with(name) &&
           (*text)[name.size()] == '=';
}

RuntimeIdMapping readMapping(const Node& node) {
    RuntimeIdMapping mapping{.containerId = 0, .hostId = 0, .size = 0};
    for (const auto& [key, value] : node.object().items()) {
        if (key == "containerID" || key == "hostID" || key == "size") {
            (key == "size"     ? mapping.size
             : key == "hostID" ? mapping.hostId
                               : mapping.containerId) = number<std::uint32_t>(node.member(key, value));
        }
    }
    return mapping;
}

RuntimeRlimit readRlimit(const Node& node) {
    RuntimeRlimit limit;
    for (const auto& [key, value] : node.object().items()) {
        const auto member = node.member(key, value);
        if (key == "type") {
            limit.type = member.string();
        } else if (key == "soft" || key == "hard") {
            (key == "soft" ? limit.soft : limit.hard) = number<std::uint64_t>(member);
        }
    }
    return limit;
}

RuntimeMount readMount(const Node& node) {
    RuntimeMount mount;
    for (const auto& [key, value] : node.object().items()) {
        const auto member = node.member(key, value);
        if (value.is_null()) {
            continue;
        }
        if (key == "destination") {
            mount.destination = member.string();
        } else if (key == "source") {
            mount.source = member.string();
        } else if (key == "type") {
            mount.type = member.string();
        } else if (key == "options") {
            mount.options = member.list("an array", string);
        }
    }
    return mount;
}

char readRuleType(const Node& node) {
    constexpr std::string_view expected = "'a', 'b' or 'c'";
    const auto type = node.string(expected);
    if (type.size() > 1 || type.find_first_not_of("abc") != std::string::npos) {
        node.fail(expected);
    }
    return type.empty() ? 'a' : type.front();
}

/// Some programs write -1 for "all".
std::optional<std::int64_t> readRuleNumber(const Node& node) {
    return node.value().is_null() || node.value() == -1 ? std::nullopt
                                                        : std::optional(number<std::uint32_t>(node));
}

RuntimeDeviceRule readDeviceRule(const Node& node) {
    RuntimeDeviceRule rule;
    for (const auto& [key, value] : node.object().items()) {
        const auto member = node.member(key, value);
        if (key == "allow") {
            rule.allow = member.boolean();
        } else if (key == "type") {
            rule.type = readRuleType(member);
        } else if (key == "major") {
            rule.major = readRuleNumber(member);
        } else if (key == "minor") {
            rule.minor = readRuleNumber(member);
        } else if (key == "access") {
            rule.access = member.string();
            if (rule.access.find_first_not_of("rwm") != std::string::npos) {
                member.fail("a combination of r, w and m");
            }
        }
    }
    return rule;
}

template <typename Object>
Json toJson(const Object& object) {
    auto json = Json::object();
    forEachMember(object, [&](const char* name, const auto& content) { json[name] = content; });
    return json;
}

}  // namespace

struct BundleConfig::Tree {
    Json root;
    std::string file;

    /// The value at the path `keys`; empty if one of them is absent (or null).
    std::optional<Node> find(Keys keys) const {
        std::optional<Node> node(std::in_place, root, "", file);
        for (const char* key : keys) {
            const auto& object = node->object();
            const auto next = object.find(key);
            if (next == object.end() || next->is_null()) {
                return std::nullopt;
            }
            node.emplace(node->member(key, *next));
        }
        return node;
    }

    std::string stringAt(Keys keys) const {
        const auto node = find(keys);
        return node ? node->string() : std::string();
    }

    template <typename Read>
    auto listAt(Keys keys, Read read) const {
        const auto node = find(keys);
        return node ? node->list("an array", read) : decltype(node->list("", read))();
    }

    /// The value at the path `keys`. Creates missing objects on the way and finally `empty`.
    Json& ensure(Keys keys, const Json& empty) {
        Json* value = &root;
        std::string path;
        for (const char* const* key = keys.begin(); key != keys.end(); ++key) {
            const auto& wanted = key + 1 == keys.end() ? empty : Json::object();
            path += path.empty() ? *key : cat('.', *key);
            value = &memberOf(*value, *key);
            if (value->is_null()) {
                *value = wanted;
            }
            if (value->type() != wanted.type()) {
                Node(*value, path, file).fail(wanted.is_object() ? "an object" : "an array");
            }
        }
        return *value;
    }
};

BundleConfig::BundleConfig(std::unique_ptr<Tree> contents) : tree(std::move(contents)) {}
BundleConfig::BundleConfig(BundleConfig&&) noexcept = default;
BundleConfig& BundleConfig::operator=(BundleConfig&&) noexcept = default;
BundleConfig::~BundleConfig() = default;

BundleConfig BundleConfig::parse(std::string_view json, std::string_view name) {
    auto tree = std::make_unique<Tree>();
    tree->file = name;
    tree->root = parseOrdered(json, printable(name));
    return BundleConfig(std::move(tree));
}

std::string BundleConfig::serialize() const {
    return tree->root.dump();
}

std::string BundleConfig::rootPath() const {
    return tree->stringAt({"root", "path"});
}

std::optional<std::string> BundleConfig::variable(std::string_view name) const {
    std::optional<std::string> found;
    tree->listAt({"process", "env"}, [&](const Node& entry) {
        if (isVariable(entry.value(), name)) {
            found = entry.value().get_ref<const std::string&>().substr(name.size() + 1);
        }
        return 0;
    });
    return found;
}

std::vector<std::string> BundleConfig::environment() const {
    return tree->listAt({"process", "env"}, string);
}

std::vector<std::string> BundleConfig::arguments() const {
    return tree->listAt({"process", "args"}, string);
}

std::string BundleConfig::workingDirectory() const {
    return tree->stringAt({"process", "cwd"});
}

RuntimeUser BundleConfig::user() const {
    RuntimeUser user;
    if (const auto uid = tree->find({"process", "user", "uid"})) {
        user.uid = number<uid_t>(*uid);
    }
    if (const auto gid = tree->find({"process", "user", "gid"})) {
        user.gid = number<gid_t>(*gid);
    }
    user.additionalGids = tree->listAt({"process", "user", "additionalGids"}, number<gid_t>);
    return user;
}

std::map<std::string, std::string> BundleConfig::annotations() const {
    std::map<std::string, std::string> result;
    if (const auto node = tree->find({"annotations"})) {
        for (const auto& [key, value] : node->object().items()) {
            result.emplace(key, node->member(key, value).string());
        }
    }
    return result;
}

std::vector<RuntimeRlimit> BundleConfig::rlimits() const {
    return tree->listAt({"process", "rlimits"}, readRlimit);
}

std::vector<RuntimeDeviceRule> BundleConfig::deviceRules() const {
    return tree->listAt({"linux", "resources", "devices"}, readDeviceRule);
}

std::vector<RuntimeMount> BundleConfig::mounts() const {
    return tree->listAt({"mounts"}, readMount);
}

std::vector<RuntimeIdMapping> BundleConfig::uidMappings() const {
    return tree->listAt({"linux", "uidMappings"}, readMapping);
}

std::vector<RuntimeIdMapping> BundleConfig::gidMappings() const {
    return tree->listAt({"linux", "gidMappings"}, readMapping);
}

bool BundleConfig::hasNamespace(std::string_view type) const {
    const auto matches = tree->listAt({"linux", "namespaces"}, [&](const Node& node) {
        const auto* const text = textIn(node.value(), "type");
        return text != nullptr && *text == type ? 1 : 0;
    });
    return std::find(matches.begin(), matches.end(), 1) != matches.end();
}

void BundleConfig::setVariable(std::string_view name, std::string_view value) {
    Json& list = tree->ensure({"process", "env"}, Json::array());
    const auto last =
        std::find_if(list.rbegin(), list.rend(), [&](const Json& entry) { return isVariable(entry, name); });
    if (last != list.rend()) {
        *last = cat(name, '=', value);
    } else {
        list.push_back(cat(name, '=', value));
    }
}

void BundleConfig::addMount(const RuntimeMount& mount) {
    Json& list = tree->ensure({"mounts"}, Json::array());
    const auto first = std::find_if(list.begin(), list.end(), [&](const Json& other) {
        const auto* const destination = textIn(other, "destination");
        return destination != nullptr && isBelow(*destination, mount.destination);
    });
    list.insert(first, toJson(mount));
}

void BundleConfig::setDevice(const RuntimeDevice& device) {
    auto item = Json::object();
    item["path"] = device.path;
    item["type"] = std::string(1, device.type);
    if (device.type != 'p') {
        item["major"] = device.major;
        item["minor"] = device.minor;
    }
    if (device.fileMode) {
        item["fileMode"] = *device.fileMode;
    }
    if (device.uid) {
        item["uid"] = *device.uid;
    }
    if (device.gid) {
        item["gid"] = *device.gid;
    }
    Json& list = tree->ensure({"linux", "devices"}, Json::array());
    const auto existing = std::find_if(list.begin(), list.end(), [&](const Json& other) {
        const auto* const path = textIn(other, "path");
        return path != nullptr && *path == device.path;
    });
    if (existing != list.end()) {
        *existing = std::move(item);
    } else {
        list.push_back(std::move(item));
    }
}

void BundleConfig::appendDeviceRule(const RuntimeDeviceRule& rule) {
    tree->ensure({"linux", "resources", "devices"}, Json::array()).push_back(toJson(rule));
}

void BundleConfig::addAdditionalGid(gid_t gid) {
    Json& list = tree->ensure({"process", "user", "additionalGids"}, Json::array());
    if (std::find(list.begin(), list.end(), gid) == list.end()) {
        list.push_back(gid);
    }
}

void BundleConfig::appendHook(std::string_view stage, const RuntimeHook& hook) {
    const std::string key(stage);
    tree->ensure({"hooks", key.c_str()}, Json::array()).push_back(toJson(hook));
}

void BundleConfig::setIntelRdt(const RuntimeIntelRdt& rdt) {
    auto item = Json::object();
    for (const auto& [key, value] :
         {std::pair("closID", &rdt.closId), std::pair("l3CacheSchema", &rdt.l3CacheSchema),
          std::pair("memBwSchema", &rdt.memBwSchema)}) {
        if (!value->empty()) {
            item[key] = *value;
        }
    }
    tree->ensure({"linux", "intelRdt"}, Json::object()) = std::move(item);
}

}  // namespace sarus::oci
