#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace sarus::hooks {

/// The environment which the hook's JSON file gave it: its configuration. Taken once at the start and then removed from the
/// process, so that no library and no child depends on it by accident.
class HookEnvironment {
public:
    /// Reads this process's environment and empties it. Of a name that appears twice the first counts, as for getenv(3).
    static HookEnvironment take();
    explicit HookEnvironment(std::map<std::string, std::string, std::less<>> variables) : values(std::move(variables)) {}

    /// nullopt if the variable is not set; an empty value is returned as such.
    std::optional<std::string> find(std::string_view name) const;
    /// Throws Error if the variable is missing or empty.
    const std::string& require(std::string_view name) const;
    /// Whether the value is "true" in any case of letters; false if the variable is not set.
    bool isTrue(std::string_view name) const;

private:
    std::map<std::string, std::string, std::less<>> values;
};

}  // namespace sarus::hooks
