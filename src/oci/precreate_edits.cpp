#include "oci/precreate_edits.hpp"

#include <nlohmann/json.hpp>

#include "oci/json_node.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::ordered_json;
using Node = JsonNode<Json>;

Json parseDocument(std::string_view text, std::string_view file) {
    try {
        return parseJson<Json>(text, file);
    } catch (const Error& error) {
        throw Error(cat("invalid JSON: ", error.what()));
    }
}

ContainerEdits readElement(const Node& node) {
    const auto& element = node.object("an object with edits of the container");
    for (const char* key : {"deviceNodes", "hooks", "additionalGids", "intelRdt", "netDevices"}) {
        if (element.contains(key)) {
            node.reject(cat("edits of '", key, "' are not supported here"), "use a CDI file and --device, or a hook, instead");
        }
    }
    return readContainerEdits(node, EditsDialect::precreate);
}

std::vector<ContainerEdits> readDocument(const Node& node) {
    const auto& document = node.object();
    if (const auto version = document.find("precreate"); version != document.end() && !version->is_null()) {
        node.member("precreate", *version).string();
    }
    const auto edits = document.find("containerEdits");
    return edits == document.end() ? std::vector<ContainerEdits>{}
                                   : node.member("containerEdits", *edits).list("a list of edits", readElement);
}

}  // namespace

std::vector<ContainerEdits> parsePrecreateEdits(std::string_view text, std::string_view file) {
    const auto document = parseDocument(text, file);
    try {
        return readDocument(Node(document, "", file));
    } catch (const Error& error) {
        throw Error(cat("invalid type or value: ", error.what()), error.hint());
    }
}

}  // namespace sarus::oci
