#include "oci/bundle_config.hpp"

#include <initializer_list>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/ordered_json.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::ordered_json;
using Keys = std::initializer_list<const char*>;

[[noreturn]] void wrongType(const std::string& file, std::string_view key, std::string_view expected) {
    throw Error(cat(file, ": ", key, " is not ", expected));
}

std::string dotted(Keys keys) {
    std::string text;
    for (const char* key : keys) {
        text += text.empty() ? "" : ".";
        text += key;
    }
    return text;
}

template <typename Number>
Number unsignedNumber(const Json& value, const std::string& file, std::string_view key) {
    const bool isNatural = value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
    if (!isNatural || value.get<std::uint64_t>() > std::numeric_limits<Number>::max()) {
        wrongType(file, key, "a number in range");
    }
    return static_cast<Number>(value.get<std::uint64_t>());
}

std::string stringValue(const Json& value, const std::string& file, std::string_view key) {
    if (!value.is_string()) {
        wrongType(file, key, "a string");
    }
    return value.get<std::string>();
}

bool boolean(const Json& value, const std::string& file, std::string_view key) {
    if (!value.is_boolean()) {
        wrongType(file, key, "true or false");
    }
    return value.get<bool>();
}

char ruleType(const Json& value, const std::string& file, std::string_view key) {
    const auto type = stringValue(value, file, key);
    if (type.size() > 1 || type.find_first_not_of("abc") != std::string::npos) {
        wrongType(file, key, "'a', 'b' or 'c'");
    }
    return type.empty() ? 'a' : type.front();
}

/// -1 is how some programs write "all".
std::optional<std::int64_t> ruleNumber(const Json& value, const std::string& file, std::string_view key) {
    if (value.is_null() || value == -1) {
        return std::nullopt;
    }
    return unsignedNumber<std::uint32_t>(value, file, key);
}

std::vector<std::string> strings(const Json& list, const std::string& file, std::string_view key) {
    std::vector<std::string> result;
    for (const auto& item : list) {
        result.push_back(stringValue(item, file, cat("an element of ", key)));
    }
    return result;
}

bool isVariable(const Json& entry, std::string_view name) {
    const auto* text = entry.get_ptr<const std::string*>();
    return text != nullptr && text->size() > name.size() && text->starts_with(name) && (*text)[name.size()] == '=';
}

}  // namespace

struct BundleConfig::Tree {
    Json root;
    std::string file;

    /// The value behind the keys, or null if one of them is absent (or null).
    const Json* find(Keys keys) const {
        const Json* value = &root;
        std::string path;
        for (const char* key : keys) {
            if (!value->is_object()) {
                wrongType(file, path, "an object");
            }
            const auto next = value->find(key);
            if (next == value->end() || next->is_null()) {
                return nullptr;
            }
            path += path.empty() ? key : cat('.', key);
            value = &*next;
        }
        return value;
    }

    const Json* findArray(Keys keys) const {
        const Json* value = find(keys);
        if (value != nullptr && !value->is_array()) {
            wrongType(file, dotted(keys), "an array");
        }
        return value;
    }

    /// The value behind the keys; objects on the way and finally `empty` are created where there is nothing.
    Json& ensure(Keys keys, const Json& empty) {
        Json* value = &root;
        std::size_t left = keys.size();
        std::string path;
        for (const char* key : keys) {
            --left;
            path += path.empty() ? key : cat('.', key);
            Json& next = memberOf(*value, key);
            if (next.is_null()) {
                next = left > 0 ? Json::object() : empty;
            }
            if (next.type() != (left > 0 ? Json::value_t::object : empty.type())) {
                wrongType(file, path, left > 0 || empty.is_object() ? "an object" : "an array");
            }
            value = &next;
        }
        return *value;
    }

    std::vector<BundleIdMapping> mappings(const char* key) const {
        std::vector<BundleIdMapping> result;
        if (const Json* list = findArray({"linux", key})) {
            for (const auto& item : *list) {
                if (!item.is_object()) {
                    wrongType(file, cat("an element of linux.", key), "an object");
                }
                const auto number = [&](const char* name) {
                    const auto found = item.find(name);
                    return found == item.end() ? 0 : unsignedNumber<std::uint32_t>(*found, file, cat("linux.", key, "[].", name));
                };
                result.push_back({number("containerID"), number("hostID"), number("size")});
            }
        }
        return result;
    }
};

BundleConfig::BundleConfig(std::unique_ptr<Tree> contents) : tree(std::move(contents)) {}
BundleConfig::BundleConfig(BundleConfig&&) noexcept = default;
BundleConfig& BundleConfig::operator=(BundleConfig&&) noexcept = default;
BundleConfig::~BundleConfig() = default;

BundleConfig BundleConfig::parse(std::string_view json, std::string_view name) {
    auto tree = std::make_unique<Tree>();
    tree->file = printable(name);
    tree->root = parseOrdered(json, tree->file);
    return BundleConfig(std::move(tree));
}

std::string BundleConfig::serialize() const {
    return tree->root.dump();
}

std::string BundleConfig::rootPath() const {
    const Json* path = tree->find({"root", "path"});
    return path == nullptr ? std::string{} : stringValue(*path, tree->file, "root.path");
}

std::vector<std::string> BundleConfig::environment() const {
    std::vector<std::string> result;
    if (const Json* list = tree->findArray({"process", "env"})) {
        for (const auto& entry : *list) {
            if (const auto* text = entry.get_ptr<const std::string*>()) {
                result.push_back(*text);
            }
        }
    }
    return result;
}

std::optional<std::string> BundleConfig::variable(std::string_view name) const {
    const Json* list = tree->findArray({"process", "env"});
    if (list == nullptr) {
        return std::nullopt;
    }
    for (auto entry = list->rbegin(); entry != list->rend(); ++entry) {
        if (isVariable(*entry, name)) {
            return entry->get_ref<const std::string&>().substr(name.size() + 1);
        }
    }
    return std::nullopt;
}

std::vector<std::string> BundleConfig::arguments() const {
    const Json* list = tree->findArray({"process", "args"});
    return list == nullptr ? std::vector<std::string>{} : strings(*list, tree->file, "process.args");
}

BundleUser BundleConfig::user() const {
    BundleUser user;
    if (const Json* uid = tree->find({"process", "user", "uid"})) {
        user.uid = unsignedNumber<uid_t>(*uid, tree->file, "process.user.uid");
    }
    if (const Json* gid = tree->find({"process", "user", "gid"})) {
        user.gid = unsignedNumber<gid_t>(*gid, tree->file, "process.user.gid");
    }
    if (const Json* groups = tree->findArray({"process", "user", "additionalGids"})) {
        for (const auto& group : *groups) {
            user.additionalGids.push_back(unsignedNumber<gid_t>(group, tree->file, "process.user.additionalGids"));
        }
    }
    return user;
}

std::map<std::string, std::string> BundleConfig::annotations() const {
    std::map<std::string, std::string> result;
    if (const Json* object = tree->find({"annotations"})) {
        if (!object->is_object()) {
            wrongType(tree->file, "annotations", "an object");
        }
        for (const auto& [key, value] : object->items()) {
            result.emplace(key, stringValue(value, tree->file, cat("annotations.", printable(key))));
        }
    }
    return result;
}

std::vector<BundleMount> BundleConfig::mounts() const {
    std::vector<BundleMount> result;
    const Json* list = tree->findArray({"mounts"});
    if (list == nullptr) {
        return result;
    }
    for (const auto& item : *list) {
        if (!item.is_object()) {
            wrongType(tree->file, "an element of mounts", "an object");
        }
        BundleMount mount;
        for (const auto& [key, value] : item.items()) {
            const auto where = cat("mounts[].", printable(key));
            if (key == "destination") {
                mount.destination = stringValue(value, tree->file, where);
            } else if (key == "source") {
                mount.source = stringValue(value, tree->file, where);
            } else if (key == "type") {
                mount.type = stringValue(value, tree->file, where);
            } else if (key == "options" && value.is_array()) {
                mount.options = strings(value, tree->file, where);
            }
        }
        result.push_back(std::move(mount));
    }
    return result;
}

std::vector<BundleDevice> BundleConfig::devices() const {
    std::vector<BundleDevice> result;
    const Json* list = tree->findArray({"linux", "devices"});
    if (list == nullptr) {
        return result;
    }
    for (const auto& item : *list) {
        BundleDevice device;
        if (!item.is_object()) {
            wrongType(tree->file, "an element of linux.devices", "an object");
        }
        for (const auto& [key, value] : item.items()) {
            const auto where = cat("linux.devices[].", printable(key));
            if (key == "path") {
                device.path = stringValue(value, tree->file, where);
            } else if (key == "type") {
                const auto type = stringValue(value, tree->file, where);
                device.type = type.empty() ? '\0' : type.front();
            } else if (key == "major" || key == "minor") {
                (key == "major" ? device.major : device.minor) = unsignedNumber<std::uint32_t>(value, tree->file, where);
            } else if (key == "fileMode") {
                device.fileMode = unsignedNumber<mode_t>(value, tree->file, where);
            } else if (key == "uid") {
                device.uid = unsignedNumber<uid_t>(value, tree->file, where);
            } else if (key == "gid") {
                device.gid = unsignedNumber<gid_t>(value, tree->file, where);
            }
        }
        result.push_back(std::move(device));
    }
    return result;
}

std::vector<BundleDeviceRule> BundleConfig::deviceRules() const {
    std::vector<BundleDeviceRule> result;
    const Json* list = tree->findArray({"linux", "resources", "devices"});
    if (list == nullptr) {
        return result;
    }
    for (const auto& item : *list) {
        BundleDeviceRule rule{.allow = false, .type = 'a', .major = {}, .minor = {}, .access = "rwm"};
        if (!item.is_object()) {
            wrongType(tree->file, "an element of linux.resources.devices", "an object");
        }
        for (const auto& [key, value] : item.items()) {
            const auto where = cat("linux.resources.devices[].", printable(key));
            if (key == "allow") {
                rule.allow = boolean(value, tree->file, where);
            } else if (key == "type") {
                rule.type = ruleType(value, tree->file, where);
            } else if (key == "major" || key == "minor") {
                (key == "major" ? rule.major : rule.minor) = ruleNumber(value, tree->file, where);
            } else if (key == "access") {
                rule.access = stringValue(value, tree->file, where);
                if (rule.access.find_first_not_of("rwm") != std::string::npos) {
                    wrongType(tree->file, where, "a combination of r, w and m");
                }
            }
        }
        result.push_back(std::move(rule));
    }
    return result;
}

std::vector<BundleIdMapping> BundleConfig::uidMappings() const {
    return tree->mappings("uidMappings");
}

std::vector<BundleIdMapping> BundleConfig::gidMappings() const {
    return tree->mappings("gidMappings");
}

std::optional<std::string> BundleConfig::cgroupsPath() const {
    const Json* path = tree->find({"linux", "cgroupsPath"});
    return path == nullptr ? std::nullopt : std::optional(stringValue(*path, tree->file, "linux.cgroupsPath"));
}

bool BundleConfig::hasNamespace(std::string_view type) const {
    if (const Json* list = tree->findArray({"linux", "namespaces"})) {
        for (const auto& item : *list) {
            const auto found = item.is_object() ? item.find("type") : item.end();
            if (item.is_object() && found != item.end() && found->is_string() && found->get_ref<const std::string&>() == type) {
                return true;
            }
        }
    }
    return false;
}

void BundleConfig::setVariable(std::string_view name, std::string_view value) {
    Json& list = tree->ensure({"process", "env"}, Json::array());
    for (auto position = list.size(); position > 0; --position) {
        if (isVariable(list[position - 1], name)) {
            list[position - 1] = cat(name, '=', value);
            return;
        }
    }
    list.push_back(cat(name, '=', value));
}

void BundleConfig::appendMount(const BundleMount& mount) {
    Json item = Json::object();
    item["destination"] = mount.destination;
    if (mount.type) {
        item["type"] = *mount.type;
    }
    item["source"] = mount.source;
    if (mount.options) {
        item["options"] = *mount.options;
    }
    tree->ensure({"mounts"}, Json::array()).push_back(std::move(item));
}

std::size_t BundleConfig::removeMounts(std::string_view destination) {
    if (tree->findArray({"mounts"}) == nullptr) {
        return 0;
    }
    Json& list = tree->root["mounts"];
    std::size_t removed = 0;
    for (auto position = list.size(); position > 0; --position) {
        const Json& item = list[position - 1];
        const auto found = item.is_object() ? item.find("destination") : item.end();
        if (item.is_object() && found != item.end() && found->is_string() &&
            found->get_ref<const std::string&>() == destination) {
            list.erase(position - 1);
            ++removed;
        }
    }
    return removed;
}

void BundleConfig::setDevice(const BundleDevice& device) {
    Json item = Json::object();
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
    for (auto& existing : list) {
        const auto found = existing.is_object() ? existing.find("path") : existing.end();
        if (existing.is_object() && found != existing.end() && *found == device.path) {
            existing = std::move(item);
            return;
        }
    }
    list.push_back(std::move(item));
}

void BundleConfig::appendDeviceRule(const BundleDeviceRule& rule) {
    Json item = Json::object();
    item["allow"] = rule.allow;
    if (rule.type != 'a') {
        item["type"] = std::string(1, rule.type);
    }
    if (rule.major) {
        item["major"] = *rule.major;
    }
    if (rule.minor) {
        item["minor"] = *rule.minor;
    }
    item["access"] = rule.access;
    tree->ensure({"linux", "resources", "devices"}, Json::array()).push_back(std::move(item));
}

void BundleConfig::addAdditionalGid(gid_t gid) {
    Json& list = tree->ensure({"process", "user", "additionalGids"}, Json::array());
    for (const auto& existing : list) {
        if (existing == gid) {
            return;
        }
    }
    list.push_back(gid);
}

void BundleConfig::appendHook(std::string_view stage, const BundleHook& hook) {
    Json item = Json::object();
    item["path"] = hook.path;
    if (!hook.args.empty()) {
        item["args"] = hook.args;
    }
    if (!hook.env.empty()) {
        item["env"] = hook.env;
    }
    if (hook.timeout) {
        item["timeout"] = *hook.timeout;
    }
    const std::string key(stage);
    tree->ensure({"hooks", key.c_str()}, Json::array()).push_back(std::move(item));
}

void BundleConfig::setIntelRdt(const BundleIntelRdt& rdt) {
    Json item = Json::object();
    for (const auto& [key, value] : {std::pair("closID", &rdt.closId), std::pair("l3CacheSchema", &rdt.l3CacheSchema),
                                     std::pair("memBwSchema", &rdt.memBwSchema)}) {
        if (!value->empty()) {
            item[key] = *value;
        }
    }
    tree->ensure({"linux", "intelRdt"}, Json::object()) = std::move(item);
}

void BundleConfig::setAnnotation(std::string_view key, std::string_view value) {
    tree->ensure({"annotations"}, Json::object())[std::string(key)] = std::string(value);
}

}  // namespace sarus::oci
