#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sarus::engine {

struct ValueDescription;

enum class Presence {
    optional,
    own,  ///< optional, unknown to Sarus 1.7
    required,
};

/// What the JSON schema and the manual page say about a key of sarus.json.
struct KeyDescription {
    std::string_view name;
    ValueDescription (*value)() = nullptr;
    Presence presence = Presence::optional;
    std::string (*defaultValue)() = nullptr;  ///< JSON; nullptr or empty: none
    std::string_view text;                    ///< what the key does; names and commands in `backticks`
};

/// The values that a key accepts.
struct ValueDescription {
    std::string words;                      ///< for people: "path", "array of paths"
    std::string schema;                     ///< JSON schema; unused if there are members
    std::vector<KeyDescription> members{};  ///< of an object, or of each object in a list
    bool isList = false;
};

/// All keys, in the order of the manual page.
std::vector<KeyDescription> siteConfigKeys();

/// The JSON schema of sarus.json.
std::string siteConfigSchema();

/// The entries of all keys in roff.
std::string siteConfigManual();

/// Text in roff. Text in `backticks` becomes bold.
std::string roff(std::string_view text);

}  // namespace sarus::engine
