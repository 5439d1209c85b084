#include "image/build/read/image_names.hpp"

namespace sarus::image::build {

namespace {

std::string_view::size_type tagColon(std::string_view name) {
    const auto slash = name.rfind('/');
    return name.find(':', slash == std::string_view::npos ? 0 : slash);
}

/// Without the server, the namespace library and the tag.
std::string_view essence(std::string_view name) {
    const auto first = name.substr(0, name.find('/'));
    if (first.size() < name.size() &&
        (first.find_first_of(".:") != std::string_view::npos || first == "localhost" || first == "load")) {
        name.remove_prefix(first.size() + 1);
    }
    constexpr std::string_view library = "library/";
    if (name.starts_with(library)) {
        name.remove_prefix(library.size());
    }
    return name.substr(0, tagColon(name));
}

}  // namespace

bool sameImageName(std::string_view a, std::string_view b) {
    return essence(a) == essence(b) && tagOf(a) == tagOf(b);
}

bool isOnlyTag(std::string_view name) {
    return name.find_first_of(":/") == std::string_view::npos;
}

std::string_view tagOf(std::string_view name) {
    const auto colon = tagColon(name);
    return colon == std::string_view::npos ? std::string_view("latest") : name.substr(colon + 1);
}

}  // namespace sarus::image::build
