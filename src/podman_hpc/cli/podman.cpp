#include "podman_hpc/cli/podman.hpp"

#include <sys/stat.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>

#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

const std::string& requirePodman(const Settings& settings) {
    const auto& program = settings.text(Key::podmanBin);
    if (program.empty()) {
        throw Error("No podman binary found in PATH", "Install Podman or set podman_bin");
    }
    return program;
}

void changeEnvironment(const std::vector<VariableChange>& changes) {
    for (const auto& change : changes) {
        change.value ? ::setenv(change.name.c_str(), change.value->c_str(), 1)
                     : ::unsetenv(change.name.c_str());
    }
}

Output capturePodman(std::vector<std::string> arguments) {
    return runAndCapture({.path = arguments.front(), .args = arguments});
}

OptionTable lookUpOptions(const Settings& settings, const std::string& command) {
    const auto& program = requirePodman(settings);
    struct stat status {};
    checkErrno(::stat(program.c_str(), &status), cat("Failed to examine ", printable(program)));
    const auto& home = settings.text(Key::configHome);
    const auto file = cat(home, "/options-", command, '-', status.st_dev, '-', status.st_ino, '-',
                          status.st_mtim.tv_sec, '.', status.st_mtim.tv_nsec);
    if (pathExists(file)) {
        return parseHelpPage(readFile(file));
    }
    const auto page = capturePodman({program, command, "--help"}).out;
    try {
        requireOwnDirectory(home, settings.uid);
        replaceFile(file, page, 0600);
    } catch (const Error& error) {
        logDebug("podman-hpc", error.what());  // the next call asks Podman again
    }
    return parseHelpPage(page);
}

const OptionTable& lookUpGlobalOptions() {
    static const auto table = [] {
        const auto program = loadSettings(ownSurroundings()).text(Key::podmanBin);
        return program.empty() ? OptionTable{} : parseHelpPage(capturePodman({program, "--help"}).out);
    }();
    return table;
}

std::string replacePodman(
    const std::string& text,
    const std::function<std::string_view(std::size_t begin, std::size_t end)>& replacement) {
    constexpr std::string_view name = "podman";
    std::string out;
    std::size_t position = 0;
    for (auto found = text.find(name); found != std::string::npos; found = text.find(name, position)) {
        out += text.substr(position, found - position);
        position = found + name.size();
        out += replacement(found, position);
    }
    return out + text.substr(position);
}

std::string renamePodman(const std::string& text) {
    const auto isPartOfWord = [&](std::size_t at) {
        const char c = at < text.size() ? text[at] : ' ';
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '-' || c == '_' ||
               c == '.';
    };
    return replacePodman(text, [&](std::size_t begin, std::size_t end) -> std::string_view {
        const bool beginsWord = begin == 0 || !isPartOfWord(begin - 1);
        const bool endsSentence = text.compare(end, 1, ".") == 0 && !isPartOfWord(end + 1);
        return beginsWord && (!isPartOfWord(end) || endsSentence) ? "podman-hpc" : "podman";
    });
}

}  // namespace sarus::podman_hpc
