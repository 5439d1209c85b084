#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/subprocess.hpp"
#include "base/unique_fd.hpp"
#include "image/transfer/run_tool.hpp"
#include "image/transfer/transfer_monitor.hpp"
#include "oci/image/image_manifest.hpp"

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
    std::optional<oci::Platform> platform{};  ///< default: this machine's
    bool quiet = false;                       ///< copying prints nothing on standard output
    RegistryTimings timings{};
};

/// The source of an image in skopeo's notation: "docker://...", "docker-archive:...", "oci:...".
struct ImageSource {
    std::string name;
    std::optional<std::string> authenticationFile{};
    int descriptor = -1;            ///< a descriptor to which `name` refers through /proc/self/fd
    bool keepUncompressed = false;  ///< do not compress layers that are plain tar archives
    std::string server{};           ///< the registry, for messages; "" for local sources
    std::string image{};            ///< its full reference, for messages
};

/// `--policy PATH` or nothing, by the rules of the reference documentation ("containersPolicy"). In this
/// order: the enforced policy; the user's or system's policy (which skopeo finds itself); the configured one;
/// otherwise Error. `home` is "" if unknown.
std::vector<std::string> policyOptions(const std::optional<PolicyChoice>& policy, const std::string& home,
                                       const std::string& systemPolicy = "/etc/containers/policy.json");

/// skopeo's options for a platform other than this machine's.
std::vector<std::string> platformOptions(const oci::Platform& platform);

/// `skopeo experimental-image-proxy`, and the socket on which it listens.
struct ProxyProgram {
    Tool tool;
    UniqueFd socket;
    UniqueFd log;  ///< a file in memory, with what it prints unless that is shown
};

/// Runs skopeo, which handles transport, authentication, signature policy, mirrors and proxies. It gets the
/// caller's environment (with a runtime directory of its own if it could not read the default one).
class Skopeo {
public:
    /// `temporaryDirectory`: for skopeo's temporary files.
    Skopeo(const SkopeoSettings& settings, std::string temporaryDirectory);

    /// The manifest as stored in the registry, a JSON object: `out` of the result. Its output is not shown.
    /// All calls to a registry are repeated for a bounded time if its failure may pass (passingFailure()).
    ToolResult inspectRaw(const ImageSource& source) const;

    /// Copies the image for the platform into an OCI layout, under the name `sarus-oci-image`. Standard
    /// output is inherited, unless it is a terminal. A long copy shows its progress on standard error, based
    /// on the `missingBytes` still to come (0: unknown). Like
    /// inspectRaw, throws Error if the registry stalls.
    ToolResult copy(const ImageSource& source, const std::string& layout,
                    std::uint64_t missingBytes = 0) const;

    /// Copies the image into a directory as the registry has it ("dir:" in skopeo's notation). Otherwise like
    /// copy.
    ToolResult copyUnchanged(const ImageSource& source, const std::string& directory) const;

    /// Starts the proxy with all that copying from this source would take into account, except the policy,
    /// which the proxy may ignore.
    ProxyProgram startProxy(const ImageSource& source) const;
    /// What to watch while files arrive in a directory; `missingBytes` as for copy().
    Transfer transfer(const ImageSource& source, const std::string& directory,
                      std::uint64_t missingBytes) const;

private:
    ToolResult copyTo(const ImageSource& source, std::string_view transport, const std::string& directory,
                      std::string_view name, std::uint64_t missingBytes) const;
    Command command(const ImageSource& source, std::vector<std::string> arguments) const;

    SkopeoSettings settings;
    std::string temporary;
    std::vector<std::string> policy;
};

}  // namespace sarus::image
