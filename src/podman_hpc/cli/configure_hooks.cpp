#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "oci/json/json_writer.hpp"
#include "podman_hpc/cli/commands.hpp"
#include "podman_hpc/config/own_hooks.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr std::string_view configureUsage = "configure-hooks [options]";

/// The hook's file for Podman (oci-hooks(5)).
std::string hookFile(const std::string& program) {
    oci::JsonWriter json;
    json.beginObject().member("version", "1.0.0");
    json.key("hook").beginObject().member("path", program);
    json.member("args", std::vector<std::string>{"hook_tool"}).endObject();
    json.key("when").beginObject().key("annotations").beginObject();
    json.member(hookAnnotation, "true").endObject().endObject();
    json.member("stages", std::vector<std::string>{"prestart"}).endObject();
    return json.text() + '\n';
}

struct Options {
    bool force = false;
    std::string directory{};
};

Options parseOptions(const Call& call) {
    Options options;
    for (std::size_t i = 0; i < call.words.size(); ++i) {
        const auto& word = call.words[i];
        if (word == "-f" || word == "--force") {
            options.force = true;
        } else if (word.starts_with("--hooksd=")) {
            options.directory = word.substr(word.find('=') + 1);
        } else if (word == "--hooksd" && i + 1 < call.words.size()) {
            options.directory = call.words[++i];
        } else if (word == "--hooksd") {
            throw usageError("Option '--hooksd' requires an argument.", configureUsage);
        } else {
            throw usageError(word.starts_with('-')
                                 ? cat("No such option: ", printable(word))
                                 : cat("Got unexpected extra argument (", printable(word), ")"),
                             configureUsage);
        }
    }
    return options;
}

}  // namespace

int configureHooks(const Call& call, const Surroundings& from) {
    const auto options = parseOptions(call);
    const auto directory =
        options.directory.empty() ? settingsOf(call, from).text(Key::hooksDir) : options.directory;
    const auto file = cat(directory, "/02-hook_tool.json");
    if (pathExists(file) && !options.force) {
        printLine(cat("Hook is already configured at ", file, ". No changes made."));
        return 0;
    }
    createDirectories(directory);
    replaceFile(file, hookFile(cat(from.prefix, "/bin/hook_tool")), 0644);
    printLine(cat("Successfully wrote hook configuration at ", file));
    return 0;
}

}  // namespace sarus::podman_hpc
