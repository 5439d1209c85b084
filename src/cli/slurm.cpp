#include "cli/slurm.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "engine/pmix.hpp"
#include "hook_contracts/slurm_pmix.hpp"

namespace sarus::cli {

namespace {

std::vector<std::string> ownVariables() {
    std::vector<std::string> entries;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        entries.emplace_back(*variable);
    }
    return entries;
}

std::string nodeName(const engine::Environment& environment) {
    if (const auto found = environment.find("SLURMD_NODENAME"); found != environment.end()) {
        return found->second;
    }
    return hook_contracts::shortNodeName();
}

/// Whether a name, such as that of a variable or directory, speaks of Open MPI.
bool isOpenMpi(std::string_view name) {
    std::string text(name);
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
    for (const std::string_view sign : {"openmpi", "open-mpi", "open_mpi", "ompi"}) {
        const auto at = text.find(sign);
        // not the end of another word
        if (at != std::string::npos &&
            (at == 0 || std::isalpha(static_cast<unsigned char>(text[at - 1])) == 0)) {
            return true;
        }
    }
    return false;
}

std::vector<std::string> existing(std::vector<std::string> directories) {
    std::erase_if(directories, [](const std::string& directory) { return !isDirectory(directory); });
    return directories;
}

/// Also in the text of a script, as in the documented command line.
bool callsMpirun(const std::vector<std::string>& command) {
    return std::any_of(command.begin(), command.end(), [](const std::string& word) {
        return word.find("mpirun") != std::string::npos || word.find("mpiexec") != std::string::npos;
    });
}

/// Whether the user has chosen how Open MPI starts processes (its component "plm"; PRTE's from version 5 on).
bool hasLauncher(const engine::LaunchRequest& request) {
    const auto chooses = [](const std::string& text) {
        return text.starts_with("OMPI_MCA_plm") || text.starts_with("PRTE_MCA_plm") ||
               text.find("mca plm") != std::string::npos || text == "plm";
    };
    const auto isIn = [&](const std::vector<std::string>& texts) {
        return std::any_of(texts.begin(), texts.end(), chooses);
    };
    return isIn(ownVariables()) || isIn(request.metadata.env) || isIn(request.env) || isIn(request.command);
}

}  // namespace

std::vector<std::string> findSlurmPmixDirectories() {
    const auto environment = engine::parseEnvironment(ownVariables());
    if (!engine::isSlurmPmixStep(environment)) {
        return {};
    }
    constexpr std::size_t serverAndClients = 2;
    auto found = existing(engine::slurmPmixDirectories(environment, {}));
    if (found.size() < serverAndClients) {
        found = existing(engine::slurmPmixDirectories(
            environment,
            hook_contracts::readSlurmConfiguration(
                hook_contracts::firstSlurmConfiguration(hostVariable("SLURM_CONF")), nodeName(environment))));
    }
    return found;
}

void warnOfMissingPmix(const engine::LaunchRequest& request, const engine::SiteConfig& config) {
    const auto value = [](const char* name) { return hostVariable(name).value_or(""); };
    const bool isFirstOfMany =
        value("SLURM_PROCID") == "0" && parseNumber(value("SLURM_STEP_NUM_TASKS")).value_or(1) > 1;
    if (!isFirstOfMany || value("SLURM_MPI_TYPE").starts_with("pmix")) {
        return;
    }
    const auto type = request.mpi ? request.mpiType.value_or(config.defaultMpiType.value_or("")) : "";
    const auto& variables = request.metadata.env;
    if (isOpenMpi(type) || std::any_of(variables.begin(), variables.end(),
                                       [](const std::string& variable) { return isOpenMpi(variable); })) {
        logWarn("CLI", cat("The image has Open MPI, and this step has no PMIx server (srun --mpi=",
                           value("SLURM_MPI_TYPE").empty() ? "none" : printable(value("SLURM_MPI_TYPE")),
                           "): its ranks may not find each other. Start them with 'srun --mpi=pmix'"));
    }
}

void warnOfLauncher(const engine::LaunchRequest& request) {
    const auto nodes = parseNumber(hostVariable("SLURM_JOB_NUM_NODES").value_or("1"));
    if (request.command.empty() || nodes.value_or(1) < 2) {
        return;
    }
    const auto name = fileNameOf(request.command.front());
    if (!request.ssh && (name == "mpirun" || name == "mpiexec")) {
        logWarn("CLI", cat(name,
                           " in a container reaches the other nodes of the job only with '--ssh': start "
                           "the ranks with 'srun sarus run' instead"));
    }
    if (request.ssh && hostVariable("SLURM_PROCID").value_or("0") == "0" && callsMpirun(request.command) &&
        !hasLauncher(request)) {
        logWarn("CLI",
                "An Open MPI that was built for Slurm starts its ranks with srun and not with ssh: set "
                "OMPI_MCA_plm=rsh and OMPI_MCA_ras=^slurm, in the image or with '--env'");
    }
}

}  // namespace sarus::cli
