#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::oci {

struct JsonLines {
    std::map<std::string, std::size_t> lines;  ///< of keys and elements, by paths such as "a.b[0].c"
    std::vector<std::string> twice;            ///< paths of keys that an object has more than once
};

/// Where the keys and elements of a document are. `text`: JSON that a parser has accepted.
JsonLines findJsonLines(std::string_view text);

}  // namespace sarus::oci
