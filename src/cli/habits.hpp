#pragma once

#include <optional>
#include <string_view>

namespace sarus::cli {

/// An option of other engines that Sarus does not have. If its value asks for what Sarus does anyway, it is
/// accepted silently. Otherwise it is an unknown option, and a line says what to do instead.
struct Habit {
    enum class Takes {
        flag,  ///< no value, which means "true", or one behind an equal sign
        word   ///< a value, always
    };

    std::string_view names;  ///< with their dashes, separated by blanks
    Takes takes;
    std::string_view same;     ///< the accepted values, separated by blanks; "*": all
    std::string_view hint;     ///< one line
    std::string_view means{};  ///< the flag of Sarus that an accepted value sets; "": none
    bool (*alsoSame)(std::string_view value) = nullptr;  ///< for values that depend on the caller or the node

    bool isAlreadySo(std::string_view value) const;
};

/// For an option with its dashes, of a command that may be one that starts processes in containers; nullptr
/// if no table knows it.
const Habit* findHabit(std::string_view command, bool startsContainers, std::string_view option);

/// What to do instead of a command of other engines. `next`: the word behind it (`container stop`).
std::optional<std::string_view> hintForCommand(std::string_view name, std::string_view next);

}  // namespace sarus::cli
