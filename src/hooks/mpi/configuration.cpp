#include "hooks/mpi/configuration.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "hook_contracts/mpi.hpp"

namespace sarus::hooks::mpi {

namespace {

class Reader {
public:
    explicit Reader(const HookEnvironment& theEnvironment) : environment(theEnvironment) {}

    Configuration read() {
        Configuration result;
        result.mpiLibraries = readLibraries("MPI_LIBS");
        checkMpiLibraries(result.mpiLibraries);
        result.dependencies = readLibraries("MPI_DEPENDENCY_LIBS");
        result.bindMounts = readPaths(hook_contracts::mpiBindMounts);
        checkExistence(result.bindMounts);
        result.policy = readPolicy();
        result.isRootless = environment.isTrue("HOOK_ROOTLESS");
        result.isMissingVersionFatal = readVersionCheck();
        return result;
    }

    std::vector<std::string> problems;

private:
    std::string value(std::string_view name) const { return environment.find(name).value_or(""); }

    std::vector<std::string> readPaths(std::string_view name) {
        try {
            return parsePathList(name, value(name));
        } catch (const Error& error) {
            problems.emplace_back(error.what());
            return {};
        }
    }

    std::vector<HostLibrary> readLibraries(std::string_view name) {
        std::vector<HostLibrary> result;
        for (const auto& path : readPaths(name)) {
            try {
                result.push_back(readHostLibrary(path));
            } catch (const Error& error) {
                problems.push_back(cat(name, ": ", error.what()));
            }
        }
        return result;
    }

    void checkMpiLibraries(const std::vector<HostLibrary>& libraries) {
        if (libraries.empty() && problems.empty()) {
            problems.push_back(environment.find("MPI_LIBS") ? "MPI_LIBS names no library"
                                                            : "MPI_LIBS is not set");
        }
        for (const auto& library : libraries) {
            if (!library.name.majorNumber()) {
                problems.push_back(cat("MPI_LIBS: the library ", printable(library.path),
                                       " has no version number in its file names and SONAME"));
            }
        }
    }

    void checkExistence(const std::vector<std::string>& paths) {
        for (const auto& path : paths) {
            struct stat status {};
            if (::stat(path.c_str(), &status) != 0) {
                problems.push_back(
                    cat(hook_contracts::mpiBindMounts, ": ", printable(path), ": ", std::strerror(errno)));
            }
        }
    }

    AbiPolicy readPolicy() {
        const auto text = value("MPI_COMPATIBILITY_TYPE");
        if (!text.empty() && text != "major" && text != "full" && text != "strict") {
            problems.push_back(cat("MPI_COMPATIBILITY_TYPE is '", printable(text),
                                   "'. Supported values: 'major', 'full', 'strict'."));
        }
        return text == "full" ? AbiPolicy::full : text == "strict" ? AbiPolicy::strict : AbiPolicy::major;
    }

    bool readVersionCheck() {
        const auto text = value("MPI_VERSION_CHECK");
        if (!text.empty() && text != "error" && text != "warn") {
            problems.push_back(
                cat("MPI_VERSION_CHECK is '", printable(text), "'. Supported values: 'error', 'warn'."));
        }
        return text != "warn";
    }

    const HookEnvironment& environment;
};

}  // namespace

std::vector<std::string> checkConfiguration(const HookEnvironment& environment) {
    Reader reader(environment);
    reader.read();
    return std::move(reader.problems);
}

Configuration readConfiguration(const HookEnvironment& environment) {
    Reader reader(environment);
    auto configuration = reader.read();
    if (!reader.problems.empty()) {
        throw Error(cat("Wrong configuration: ", join(reader.problems, "; ")),
                    "Correct \"env\" in the hook's JSON file");
    }
    return configuration;
}

}  // namespace sarus::hooks::mpi
