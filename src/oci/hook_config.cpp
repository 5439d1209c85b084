#include "oci/hook_config.hpp"

#include <re2/re2.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json_node.hpp"

// etc/hook.schema.json states the same rules for editors; a test holds the two together.

namespace sarus::oci {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t patternMemory = 1 << 20;

RE2::Options patternOptions() {
    RE2::Options options(RE2::Quiet);
    options.set_max_mem(patternMemory);
    return options;
}

using Node = JsonNode<Json>;

std::uint64_t readSeconds(const Node& node) {
    const auto& json = node.value();
    if (!json.is_number_unsigned() || json.get<std::uint64_t>() < 1 || json.get<std::uint64_t>() > INT32_MAX) {
        node.fail("a whole number of seconds, at least 1");
    }
    return json.get<std::uint64_t>();
}

void checkPattern(const Node& node, const std::string& text) {
    const RE2 compiled(text, patternOptions());
    if (!compiled.ok()) {
        node.reject(cat("invalid regular expression '", printable(text), "': ", printable(compiled.error())));
    }
}

std::string readPattern(const Node& node) {
    auto text = node.string("a regular expression");
    checkPattern(node, text);
    return text;
}

[[noreturn]] void unknownKey(const Node& node, const std::string& key, std::string_view what) {
    node.reject(cat("unknown ", what, " '", printable(key), "'"));
}

std::vector<std::string> readStrings(const Node& node) {
    return node.list("a list of strings", [](const Node& element) { return element.string(); });
}

RuntimeHook readHook(const Node& node) {
    RuntimeHook hook;
    for (const auto& [key, content] : node.object("an object with the hook's path").items()) {
        const auto member = node.member(key, content);
        if (key == "path") {
            hook.path = member.absolutePath();
        } else if (key == "args") {
            hook.args = readStrings(member);
        } else if (key == "env") {
            hook.env = readStrings(member);
        } else if (key == "timeout") {
            hook.timeout = readSeconds(member);
        } else {
            unknownKey(node, key, "key");
        }
    }
    if (hook.path.empty()) {
        node.reject("the required key 'path' is missing");
    }
    return hook;
}

HookConditions readConditions(const Node& node) {
    HookConditions when;
    const auto& object = node.object("an object with at least one condition");
    if (object.empty()) {
        node.fail("an object with at least one condition");
    }
    for (const auto& [key, content] : object.items()) {
        const auto member = node.member(key, content);
        if (key == "always") {
            when.always = member.boolean();
        } else if (key == "hasBindMounts") {
            when.hasBindMounts = member.boolean();
        } else if (key == "commands") {
            when.commands =
                member.list("a list of regular expressions", [](const Node& element) { return readPattern(element); });
            if (when.commands.empty()) {
                member.fail("a list of at least one regular expression");
            }
        } else if (key == "annotations") {
            for (const auto& [name, value] : member.object("an object of regular expressions").items()) {
                checkPattern(member, name);
                when.annotations.emplace_back(name, readPattern(member.member(name, value)));
            }
            if (when.annotations.empty()) {
                member.fail("an object of at least one pair of regular expressions");
            }
        } else {
            unknownKey(node, key, "condition");
        }
    }
    return when;
}

std::vector<std::string> readStages(const Node& node) {
    const auto& known = hookStages();
    auto stages = node.list("a list of stages", [&](const Node& element) {
        auto stage = element.string("the name of a stage");
        if (std::find(known.begin(), known.end(), stage) == known.end()) {
            element.fail(cat("one of ", join(known, ", ")));
        }
        return stage;
    });
    if (stages.empty()) {
        node.fail("a list of at least one stage");
    }
    return stages;
}

using AnnotationPattern = std::pair<std::string, std::string>;

/// One condition of a hook, held against a container.
struct ConditionResult {
    bool holds = false;
    std::string reason;  ///< printable: what made it hold, or what is missing
};

ConditionResult examineAnnotation(const AnnotationPattern& condition, const std::map<std::string, std::string>& annotations) {
    const RE2 key(condition.first, patternOptions());
    const RE2 value(condition.second, patternOptions());
    ConditionResult result{.holds = false, .reason = cat("no annotation matches ", printable(condition.first))};
    for (const auto& [name, text] : annotations) {
        if (!RE2::FullMatch(name, key)) {
            continue;
        }
        result.holds = RE2::FullMatch(text, value);
        result.reason = cat("annotation ", printable(name), "=", printable(text));
        if (result.holds) {
            return result;
        }
        result.reason += cat(" does not match ", printable(condition.second));
    }
    return result;
}

ConditionResult examineCommand(const std::vector<std::string>& patterns, std::string_view command) {
    for (const auto& pattern : patterns) {
        if (matchesWhole(pattern, command)) {
            return {.holds = true, .reason = cat("command ", printable(command), " matches ", printable(pattern))};
        }
    }
    return {.holds = false, .reason = cat("command ", printable(command), " does not match ", printable(join(patterns, " or ")))};
}

/// Every condition which is given, in the order of the fields of HookConditions.
std::vector<ConditionResult> examineConditions(const HookConditions& conditions, const HookSubject& subject) {
    std::vector<ConditionResult> results;
    if (conditions.always) {
        results.push_back({.holds = *conditions.always, .reason = *conditions.always ? "always" : "always is false"});
    }
    for (const auto& condition : conditions.annotations) {
        results.push_back(examineAnnotation(condition, subject.annotations));
    }
    if (!conditions.commands.empty()) {
        results.push_back(examineCommand(conditions.commands, subject.command));
    }
    if (conditions.hasBindMounts) {
        results.push_back({.holds = *conditions.hasBindMounts == subject.hasBindMounts,
                           .reason = subject.hasBindMounts ? "there are bind mounts" : "there is no bind mount"});
    }
    return results;
}

}  // namespace

std::string HookConfig::name() const {
    auto base = file.substr(file.rfind('/') + 1);  // npos + 1 is 0
    if (base.ends_with(".json")) {
        base.resize(base.size() - 5);
    }
    return base;
}

HookConfig parseHookConfig(std::string_view json, std::string_view file) {
    const auto document = parseJson<Json>(json, file);
    const Node root(document, "", file);
    HookConfig config;
    config.file = file;
    for (const auto& [key, content] : root.object("an object").items()) {
        const auto member = root.member(key, content);
        if (key == "version") {
            if (member.string("\"1.0.0\"") != "1.0.0") {
                member.fail("\"1.0.0\"");
            }
        } else if (key == "hook") {
            config.hook = readHook(member);
        } else if (key == "when") {
            config.when = readConditions(member);
        } else if (key == "stages") {
            config.stages = readStages(member);
        } else {
            unknownKey(root, key, "key");
        }
    }
    for (const auto* required : {"version", "hook", "when", "stages"}) {
        if (!document.contains(required)) {
            root.reject(cat("the required key '", required, "' is missing"));
        }
    }
    return config;
}

bool matchesWhole(const std::string& pattern, std::string_view text) {
    return RE2::FullMatch(re2::StringPiece(text.data(), text.size()), RE2(pattern, patternOptions()));
}

bool hookFires(const HookConditions& conditions, const HookSubject& subject) {
    const auto results = examineConditions(conditions, subject);
    return std::all_of(results.begin(), results.end(), [](const auto& result) { return result.holds; });
}

std::string explainConditions(const HookConditions& conditions, const HookSubject& subject) {
    const bool fires = hookFires(conditions, subject);
    std::vector<std::string> reasons;
    for (auto& result : examineConditions(conditions, subject)) {
        if (result.holds == fires) {
            reasons.push_back(std::move(result.reason));
        }
    }
    return join(reasons, "; ");
}

std::optional<std::string> mpiTypePattern(const HookConditions& conditions) {
    bool enabled = false;
    std::string type;
    for (const auto& [key, value] : conditions.annotations) {
        enabled = enabled || (matchesWhole(key, "com.hooks.mpi.enabled") && matchesWhole(value, "true"));
        if (type.empty() && matchesWhole(key, "com.hooks.mpi.type")) {
            type = value;
        }
    }
    return enabled ? std::optional(type) : std::nullopt;
}

bool isJsonObject(std::string_view text) {
    const auto trimmed = trim(text);
    return trimmed.starts_with('{') && Json::accept(trimmed);
}

}  // namespace sarus::oci
