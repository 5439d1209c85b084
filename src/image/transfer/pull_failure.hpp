#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sarus::image {

/// "503 Service Unavailable" for manifests, "503 (Service Unavailable)" for layers.
inline constexpr std::string_view overloaded = "Service Unavailable";

/// The text of skopeo's last error in one line, without time and level.
std::string skopeoMessage(std::string_view errors);

/// Explains, in lines for the user, why skopeo failed to get something from `server`. `credentialsGiven`:
/// whether the user requested a login.
std::vector<std::string> explainPullFailure(std::string_view errors, const std::string& server,
                                            bool credentialsGiven);

}  // namespace sarus::image
