#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::image {

/// What a failure of Skopeo::inspectRaw() says if the registry's answer is no manifest at all.
inline constexpr std::string_view answerIsNoManifest = "the answer is no manifest";

/// How a user of the calling program logs in at a registry.
struct LoginAdvice {
    std::string sentence = "See 'sarus help pull' (--login option)";
    std::string brief = "--login option";
};

/// Explains, in lines for the user, why skopeo failed to get something from `server`. `credentialsGiven`:
/// whether the user requested a login. `policyFile`: the signature policy in effect, "" if unknown.
std::vector<std::string> explainPullFailure(std::string_view errors, const std::string& server,
                                            bool credentialsGiven, const std::string& policyFile = "",
                                            const LoginAdvice& advice = {});

/// Whether a registry has answered, and refused what it was asked for: it lacks that, or the caller may not
/// have it (now).
bool isRegistrysAnswer(std::string_view errors);

/// A failure that may be over soon.
struct PassingFailure {
    std::string cause;             ///< "503 (Service Unavailable)"
    bool tooManyRequests = false;  ///< skopeo has waited already
};

/// nullopt if trying again is useless.
std::optional<PassingFailure> passingFailure(std::string_view errors);

/// How long a registry wants not to be asked again, by the last Retry-After (RFC 9110, section 10.2.3) in
/// skopeo's log at level debug; nullopt if there is none.
std::optional<std::chrono::seconds> requestedPause(std::string_view log);

}  // namespace sarus::image
