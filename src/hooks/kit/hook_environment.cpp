#include "hooks/kit/hook_environment.hpp"

#include <unistd.h>

#include <cstdlib>

#include "base/boolean.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

HookEnvironment HookEnvironment::take() {
    std::map<std::string, std::string, std::less<>> values;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const auto equals = text.find('=');
        if (equals != std::string_view::npos && equals > 0) {
            values.emplace(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    ::clearenv();
    return HookEnvironment(std::move(values));
}

std::optional<std::string> HookEnvironment::find(std::string_view name) const {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
}

const std::string& HookEnvironment::require(std::string_view name) const {
    const auto found = values.find(name);
    if (found == values.end() || found->second.empty()) {
        throw Error(cat("The environment variable ", name, " is not set"),
                    "Add it to \"env\" in the hook's JSON file");
    }
    return found->second;
}

bool HookEnvironment::isTrue(std::string_view name, bool otherwise) const {
    const auto found = values.find(name);
    if (found == values.end() || found->second.empty()) {
        return otherwise;
    }
    const auto value = parseBoolean(found->second);
    if (!value) {
        throw Error(cat(name, ": expected true or false, found '", printable(found->second), "'"),
                    "Correct it in \"env\" of the hook's JSON file");
    }
    return *value;
}

std::vector<std::string> HookEnvironment::names() const {
    std::vector<std::string> result;
    for (const auto& [name, value] : values) {
        result.push_back(name);
    }
    return result;
}

}  // namespace sarus::hooks
