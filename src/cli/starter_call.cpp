#include "cli/starter_call.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::cli {

void execStarter(Context& context, std::vector<std::string> arguments) {
    auto starter = cat(context.prefix(), "/libexec/sarus-starter");
    arguments.insert(arguments.begin(), starter);
    std::vector<char*> argv;
    for (auto& argument : arguments) {
        argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    char* environment = nullptr;
    ::execve(starter.c_str(), argv.data(), &environment);
    throw Error::fromErrno(cat("Failed to execute ", printable(starter)), errno, "Is the installation complete?");
}

std::string sessionDirectory() {
    const char* directory = std::getenv("XDG_RUNTIME_DIR");
    return directory == nullptr ? "" : directory;
}

Option jsonOption() {
    return {.longName = "json", .help = "Print JSON, for programs"};
}

std::string outputForm(const Arguments& arguments) {
    return arguments.has("json") ? "json" : "text";
}

}  // namespace sarus::cli
