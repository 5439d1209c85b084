#include "oci/json/ordered_json.hpp"

#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json/json_depth.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::ordered_json;

/// Builds the tree of a document from the parser's events. The library defines the function names.
class TreeBuilder {
public:
    explicit TreeBuilder(Json& rootValue) : root(rootValue) {}

    // NOLINTBEGIN(readability-identifier-naming)
    bool null() { return put(nullptr) != nullptr; }
    bool boolean(bool value) { return put(value) != nullptr; }
    bool number_integer(Json::number_integer_t value) { return put(value) != nullptr; }
    bool number_unsigned(Json::number_unsigned_t value) { return put(value) != nullptr; }
    bool number_float(double value, const std::string& token) {
        if (token.find_first_of(".eE") == std::string::npos) {
            inexact = token;
        }
        return put(value) != nullptr;
    }
    bool string(std::string& value) { return put(std::move(value)) != nullptr; }
    bool binary(Json::binary_t& value) { return put(std::move(value)) != nullptr; }  // not in JSON texts
    bool start_object(std::size_t) { return open(Json::object()); }
    bool start_array(std::size_t) { return open(Json::array()); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool key(std::string& name) {
        member = &memberOf(*unfinished.back(), name);
        return true;
    }
    template <typename Exception>
    bool parse_error(std::size_t, const std::string&, const Exception& failure) {
        throw failure;
    }
    // NOLINTEND(readability-identifier-naming)

    std::string inexact;

private:
    /// The objects and arrays around the innermost one do not move, so pointers into them stay valid.
    Json* put(Json value) {
        if (unfinished.empty()) {
            root = std::move(value);
            return &root;
        }
        if (unfinished.back()->is_array()) {
            unfinished.back()->push_back(std::move(value));
            return &unfinished.back()->back();
        }
        *member = std::move(value);
        return member;
    }
    bool open(Json value) {
        unfinished.push_back(put(std::move(value)));
        // Trees that are written and compared recursively must not be deeper.
        return unfinished.size() <= maxJsonLevels;
    }
    bool close() {
        unfinished.pop_back();
        return true;
    }

    Json& root;
    std::vector<Json*> unfinished;  ///< the open objects and arrays, outermost first
    Json* member = nullptr;         ///< the one whose value comes next
};

}  // namespace

Json parseOrdered(std::string_view json, const std::string& file) {
    Json root;
    TreeBuilder builder(root);
    try {
        if (!Json::sax_parse(json.begin(), json.end(), &builder)) {
            throw Error(cat(file, " is nested deeper than ", maxJsonLevels, " levels"));
        }
    } catch (const Json::exception& failure) {
        throw Error(cat("Invalid JSON in ", file, ": ", printable(failure.what())));
    }
    if (!root.is_object()) {
        throw Error(cat("Invalid JSON in ", file, ": not an object"));
    }
    if (!builder.inexact.empty()) {
        throw Error(cat(file, ": the number ", builder.inexact.substr(0, 40),
                        " does not fit into 64 bits and cannot be kept exactly"));
    }
    return root;
}

Json& memberOf(Json& object, const std::string& key) {
    auto& members = object.get_ref<Json::object_t&>();
    if (const auto found = members.find(key); found != members.end()) {
        return found->second;
    }
    if (members.size() == members.capacity()) {
        Json::object_t larger;
        larger.reserve(2 * members.size() + 2);
        for (auto& [name, value] : members) {
            larger.emplace_back(name, std::move(value));
        }
        members.swap(larger);
    }
    return members.emplace_back(key, nullptr).second;
}

}  // namespace sarus::oci
