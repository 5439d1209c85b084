#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/run_tool.hpp"
#include "image/transfer_monitor.hpp"
#include "oci/image_manifest.hpp"

namespace sarus::image {

/// `containersPolicy` of the site configuration.
struct PolicyChoice {
    std::string path;
    bool enforce = false;
};

struct SkopeoSettings {
    std::string path;
    std::optional<PolicyChoice> policy;
    std::optional<std::string> registriesDPath;
    std::optional<oci::Platform> platform{};  ///< that of this machine if absent
    bool quiet = false;                       ///< copying prints nothing on standard output
    RegistryTimings timings{};
};

/// Where an image comes from, as skopeo names it: "docker://...", "docker-archive:...", "oci:...".
struct ImageSource {
    std::string name;
    std::optional<std::string> authenticationFile{};
    int descriptor = -1;            ///< a descriptor which `name` refers to through /proc/self/fd
    bool keepUncompressed = false;  ///< leave layers alone which are plain tar archives
    std::string server{};           ///< the registry, for messages; "" for what is on this machine
    std::string image{};            ///< its full reference, for messages
};

/// `--policy PATH` or nothing, by the rules of the reference documentation ("containersPolicy"): enforced; else the policy of the
/// user or of the system if there is one (which skopeo finds itself); else the configured one; else Error. `home` is "" if
/// unknown.
std::vector<std::string> policyOptions(const std::optional<PolicyChoice>& policy, const std::string& home,
                                       const std::string& systemPolicy = "/etc/containers/policy.json");

/// skopeo's options for another platform than this machine's.
std::vector<std::string> platformOptions(const oci::Platform& platform);

/// Drives skopeo, which does transport, authentication, signature policy, mirrors and proxies. It gets the caller's environment
/// (with a runtime directory of its own where there is none that it could read).
class Skopeo {
public:
    /// `temporaryDirectory`: for what skopeo spools.
    Skopeo(const SkopeoSettings& settings, std::string temporaryDirectory);

    /// The manifest as the registry has it: `out` of the result. Its output is not shown.
    ToolResult inspectRaw(const ImageSource& source) const;

    /// Copies the image for the platform into an OCI layout, under the name `sarus-oci-image`. Standard output is inherited.
    /// Where skopeo shows no bars itself (standard output is no terminal), a long copy gets lines of progress on standard error,
    /// by what `missingBytes` are to come (0: unknown). Throws Error for a registry that stalls, as inspectRaw does.
    ToolResult copy(const ImageSource& source, const std::string& layout, std::uint64_t missingBytes = 0) const;

private:
    Command command(std::vector<std::string> arguments) const;

    SkopeoSettings settings;
    std::string temporary;
    std::vector<std::string> policy;
};

/// The text of skopeo's last error in one line, without time and level.
std::string skopeoMessage(std::string_view errors);

/// What a failure of skopeo to get something from `server` means, in lines for the user. `credentialsGiven`: whether the user
/// asked for a login.
std::vector<std::string> explainPullFailure(std::string_view errors, const std::string& server, bool credentialsGiven);

}  // namespace sarus::image
