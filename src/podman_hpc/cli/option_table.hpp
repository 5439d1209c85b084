#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::podman_hpc {

/// Which options a command of Podman has, and whether each takes a value from the next word.
struct OptionTable {
    std::map<std::string, bool, std::less<>> longNames;
    std::map<char, bool> shortNames;
};

/// The options of `podman run` and `podman create`, of `podman exec`, and those before the command; of Podman
/// 4.3.
const OptionTable& runOptions();
const OptionTable& execOptions();
const OptionTable& globalOptions();

/// The options in the output of `podman COMMAND --help`.
OptionTable parseHelpPage(std::string_view page);

/// What the words in front of the image mean.
struct ScannedWords {
    std::vector<std::string> words;                 ///< without the flags of modules
    std::vector<std::vector<std::string>> options;  ///< of those, each option with its value
    std::set<std::string> flags;                    ///< those of modules that were found
    bool help = false;                              ///< `--help` stands in front of the image
    bool complete = false;                          ///< there is an image (or container)
};

/// Reads options up to the first word that is neither an option nor its value: nothing after it is
/// interpreted. `--` ends the options and stays. `lookUp` gives Podman's own table for a long option that
/// `known` lacks. Throws Error with status 2 for a flag of a module with a value.
ScannedWords scanOptions(const std::vector<std::string>& words, const OptionTable& known,
                         const std::function<const OptionTable&()>& lookUp,
                         const std::set<std::string>& moduleFlags);

/// One option with its value, each letter of `-it` by itself.
struct TypedOption {
    std::string name;  ///< long, or one letter
    std::optional<std::string> value{};
    std::vector<std::string> words;

    bool is(std::string_view letter, std::string_view longName) const {
        return name == letter || name == longName;
    }
};

/// `words`: an option as typed and perhaps its value, as in ScannedWords.
std::vector<TypedOption> separateOptions(const std::vector<std::string>& words, const OptionTable& known);

}  // namespace sarus::podman_hpc
