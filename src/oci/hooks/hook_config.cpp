#include "oci/hooks/hook_config.hpp"

#include <re2/re2.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json/json_members.hpp"

// etc/hook.schema.json states the same rules for editors; a test compares them.

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
    constexpr std::string_view expected = "a whole number of seconds, at least 1";
    const auto seconds = node.number(INT32_MAX, expected);
    if (seconds == 0) {
        node.fail(expected);
    }
    return seconds;
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

std::string_view nameOf(std::string_view variable) {
    return variable.substr(0, variable.find('='));
}

/// Keeps the last value of each variable: some runtimes would take the first value, others the last. Returns
/// the names of repeated variables.
std::vector<std::string> keepLastValues(std::vector<std::string>& environment) {
    std::vector<std::string> repeated;
    for (auto entry = environment.begin(); entry != environment.end();) {
        const std::string name(nameOf(*entry));
        if (std::none_of(entry + 1, environment.end(),
                         [&](const auto& later) { return nameOf(later) == name; })) {
            ++entry;
            continue;
        }
        if (std::find(repeated.begin(), repeated.end(), name) == repeated.end()) {
            repeated.push_back(name);
        }
        entry = environment.erase(entry);
    }
    return repeated;
}

RuntimeHook readHook(const Node& node) {
    RuntimeHook hook;
    readMembers(node, "an object with the hook's path", "key",
                {{"path", [&](const Node& value) { hook.path = value.absolutePath(); }},
                 {"args", [&](const Node& value) { hook.args = value.strings(); }},
                 {"env", [&](const Node& value) { hook.env = value.strings(); }},
                 {"timeout", [&](const Node& value) { hook.timeout = readSeconds(value); }}});
    if (hook.path.empty()) {
        node.reject("the required key 'path' is missing");
    }
    return hook;
}

std::vector<std::string> readCommands(const Node& node) {
    auto commands = node.list("a list of regular expressions", readPattern);
    if (commands.empty()) {
        node.failEmpty("regular expression");
    }
    return commands;
}

std::vector<std::pair<std::string, std::string>> readAnnotations(const Node& node) {
    std::vector<std::pair<std::string, std::string>> annotations;
    for (const auto& [name, value] : node.object("an object of regular expressions").items()) {
        checkPattern(node, name);
        annotations.emplace_back(name, readPattern(node.member(name, value)));
    }
    if (annotations.empty()) {
        node.failEmpty("pair of regular expressions");
    }
    return annotations;
}

HookConditions readConditions(const Node& node) {
    HookConditions when;
    readMembers(node, "an object with at least one condition", "condition",
                {{"always", [&](const Node& value) { when.always = value.boolean(); }},
                 {"hasBindMounts", [&](const Node& value) { when.hasBindMounts = value.boolean(); }},
                 {"commands", [&](const Node& value) { when.commands = readCommands(value); }},
                 {"annotations", [&](const Node& value) { when.annotations = readAnnotations(value); }}});
    if (node.value().empty()) {
        node.failEmpty("condition");
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
        node.failEmpty("stage");
    }
    return stages;
}

using AnnotationPattern = std::pair<std::string, std::string>;

/// One condition of a hook, matched against a container.
struct ConditionResult {
    bool holds = false;
    std::string reason;  ///< printable: what satisfied it, or what is missing
};

ConditionResult examineAnnotation(const AnnotationPattern& condition,
                                  const std::map<std::string, std::string>& annotations) {
    const RE2 key(condition.first, patternOptions());
    const RE2 value(condition.second, patternOptions());
    ConditionResult result{.holds = false,
                           .reason = cat("no annotation matches ", printable(condition.first))};
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
            return {.holds = true,
                    .reason = cat("command ", printable(command), " matches ", printable(pattern))};
        }
    }
    return {
        .holds = false,
        .reason = cat("command ", printable(command), " does not match ", printable(join(patterns, " or ")))};
}

/// Every condition that is set, in the order of the fields of HookConditions.
std::vector<ConditionResult> examineConditions(const HookConditions& conditions, const HookSubject& subject) {
    std::vector<ConditionResult> results;
    if (conditions.always) {
        results.push_back(
            {.holds = *conditions.always, .reason = *conditions.always ? "always" : "always is false"});
    }
    for (const auto& condition : conditions.annotations) {
        results.push_back(examineAnnotation(condition, subject.annotations));
    }
    if (!conditions.commands.empty()) {
        results.push_back(examineCommand(conditions.commands, subject.command));
    }
    if (conditions.hasBindMounts) {
        results.push_back(
            {.holds = *conditions.hasBindMounts == subject.hasBindMounts,
             .reason = subject.hasBindMounts ? "there are bind mounts" : "there is no bind mount"});
    }
    return results;
}

}  // namespace

std::string HookConfig::name() const {
    auto base = fileNameOf(file);
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
    readMembers(root, "an object", "key",
                {{"version",
                  [](const Node& value) {
                      if (value.string("\"1.0.0\"") != "1.0.0") {
                          value.fail("\"1.0.0\"");
                      }
                  }},
                 {"hook",
                  [&](const Node& value) {
                      config.hook = readHook(value);
                      config.repeatedVariables = keepLastValues(config.hook.env);
                  }},
                 {"when", [&](const Node& value) { config.when = readConditions(value); }},
                 {"stages", [&](const Node& value) { config.stages = readStages(value); }}});
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

bool dependsOnAnnotation(const HookConditions& conditions, std::string_view key) {
    return std::any_of(conditions.annotations.begin(), conditions.annotations.end(),
                       [&](const auto& condition) { return matchesWhole(condition.first, key); });
}

}  // namespace sarus::oci
