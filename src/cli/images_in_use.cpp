#include "cli/images_in_use.hpp"

#include <nlohmann/json.hpp>

#include "cli/starter_call.hpp"
#include "oci/json/json_node.hpp"

namespace sarus::cli {

std::map<std::string, std::vector<std::string>> containersByImage(Context& context, Kept kept) {
    std::map<std::string, std::vector<std::string>> found;
    const auto list = askStarter(
        context,
        engine::ListRequest{.sessionDirectory = sessionDirectory(), .json = true, .kept = kept == Kept::yes});
    for (const auto& container : oci::parseJson<nlohmann::json>(list, "the list of containers")) {
        found[container.value("image", "")].push_back(container.value("name", ""));
    }
    return found;
}

std::set<std::string> imagesInUse(Context& context) {
    std::set<std::string> images;
    for (const auto& [image, containers] : containersByImage(context, Kept::yes)) {
        images.insert(image);
    }
    return images;
}

}  // namespace sarus::cli
