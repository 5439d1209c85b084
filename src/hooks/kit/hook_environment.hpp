#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::hooks {

/// The environment from the hook's JSON file: its configuration. Taken once at the start and then removed
/// from the process, so that no library or child depends on it by accident.
class HookEnvironment {
public:
    /// Reads and clears this process's environment. For a repeated name the first value counts, as in
    /// getenv(3).
    static HookEnvironment take();
    explicit HookEnvironment(std::map<std::string, std::string, std::less<>> variables)
        : values(std::move(variables)) {}

    /// nullopt if the variable is not set; an empty value is returned as such.
    std::optional<std::string> find(std::string_view name) const;
    /// Throws Error if the variable is missing or empty.
    const std::string& require(std::string_view name) const;
    /// The value as parseBoolean() reads it; `otherwise` if the variable is not set or empty. Throws Error
    /// for other values.
    bool isTrue(std::string_view name, bool otherwise = false) const;
    /// The names of all variables, sorted.
    std::vector<std::string> names() const;

private:
    std::map<std::string, std::string, std::less<>> values;
};

}  // namespace sarus::hooks
