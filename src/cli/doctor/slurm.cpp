#include <glob.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "cli/doctor/checks.hpp"
#include "hook_contracts/slurm_pmix.hpp"

namespace sarus::cli {

namespace {

using Grade = Finding::Grade;

Output scontrol(const std::string& program, std::vector<std::string> words) {
    words.insert(words.begin(), "scontrol");
    return runAndCapture({.path = program, .args = std::move(words)});
}

using doctor::note;
using doctor::ok;

Finding checkController(const Output& answer) {
    if (answer.status.ok()) {
        return ok(printable(split(trim(answer.out), '\n').front()));
    }
    // The commands of Slurm alone make no node of a cluster.
    const auto reason = split(trim(cat(answer.out, answer.err)), '\n').back();
    return {"", pathExists("/etc/slurm/slurm.conf") ? Grade::warning : Grade::note,
            cat("the controller does not answer: ", printable(reason)),
            "systemctl status slurmctld # on the controller; and look at slurm.conf on this node"};
}

Finding checkPmix(const Patient& patient, const std::string& srun) {
    const auto plugins = runAndCapture({.path = srun, .args = {"srun", "--mpi=list"}});
    const auto words = splitWords(cat(plugins.out, ' ', plugins.err));
    std::string pmix;
    for (const auto& word : words) {
        pmix += word.starts_with("pmix") ? cat(pmix.empty() ? "" : ", ", printable(word)) : "";
    }
    if (pmix.empty()) {
        return {"PMIx", Grade::note, "Slurm has no plugin for PMIx, which Open MPI needs under srun",
                "Install Slurm's plugin mpi_pmix"};
    }
    const auto enabled = patient.config.enablePmixV3Support;
    if (enabled && !*enabled) {
        return {"PMIx", Grade::note,
                cat("srun --mpi=", pmix, "; enablePMIxv3Support is false: Open MPI may fail in containers"),
                cat("Remove enablePMIxv3Support from ", printable(patient.configFile),
                    ": containers then get the directories of their step")};
    }
    return {"PMIx", Grade::ok, cat("srun --mpi=", pmix, enabled ? "; enablePMIxv3Support is set" : "")};
}

/// "" if there is none. SLURM_CONF counts even if it names no file.
std::string slurmConfiguration() {
    if (auto variable = hostVariable("SLURM_CONF")) {
        return std::move(*variable);
    }
    const auto places =
        hook_contracts::slurmConfigurationPlaces(hook_contracts::firstSlurmConfiguration(std::nullopt));
    const auto found = std::find_if(places.begin(), places.end(), pathExists);
    return found == places.end() ? "" : *found;
}

std::string plugstackFile(const std::string& configuration) {
    constexpr std::string_view key = "PlugStackConfig=";
    for (const auto& word :
         pathExists(configuration) ? splitWords(readFile(configuration)) : std::vector<std::string>()) {
        if (word.starts_with(key)) {
            return word.substr(key.size());
        }
    }
    return cat(configuration.substr(0, configuration.rfind('/') + 1), "plugstack.conf");
}

/// The files that a pattern of `include` names.
std::vector<std::string> filesLike(const std::string& pattern) {
    glob_t found{};
    std::vector<std::string> files;
    if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
        files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    }
    ::globfree(&found);
    return files;
}

struct PlugstackLine {
    std::string file;
    bool required;
};

/// The line that loads the plugin; nullopt if there is none.
std::optional<PlugstackLine> findPluginLine(const std::string& file, const std::string& plugin, int depth) {
    constexpr int deepest = 8;
    if (depth > deepest || !pathExists(file)) {
        return std::nullopt;
    }
    for (const auto& line : split(readFile(file), '\n')) {
        const auto words = splitWords(line);
        if (words.size() < 2) {
            continue;
        }
        if (words[0] == "include") {
            for (const auto& included : filesLike(words[1])) {
                if (auto found = findPluginLine(included, plugin, depth + 1)) {
                    return found;
                }
            }
        } else if (words[1] == plugin || words[1].ends_with("/spank_sarus.so")) {
            return PlugstackLine{file, words[0] == "required"};
        }
    }
    return std::nullopt;
}

/// The plugin says it itself (src/spank/plugin/plugin.cpp).
std::string releaseOf(const std::string& plugin) {
    constexpr std::string_view words = "spank_sarus for Slurm ";
    const auto text = readFile(plugin);
    const auto found = text.find(words);
    return found == std::string::npos ? "" : text.c_str() + found + words.size();
}

/// 22.05 of "slurm-wlm 22.05.8"
std::string releaseIn(const std::string& output) {
    const auto words = splitWords(output);
    const auto parts = split(words.empty() ? std::string() : words.back(), '.');
    return parts.size() < 2 ? "" : cat(parts[0], '.', parts[1]);
}

/// `slurms`: the release of Slurm on this node. `plugstack`: its file.
Finding checkPlugin(const std::string& plugin, const std::string& slurms, const std::string& plugstack) {
    const auto own = releaseOf(plugin);
    const auto line = findPluginLine(plugstack, plugin, 0);
    Finding found{"", Grade::ok, cat(plugin, " is for Slurm ", printable(own))};
    const bool required = line && line->required;
    if (own != slurms) {
        found.grade = required ? Grade::error : Grade::warning;
        found.message +=
            cat(", and this node has Slurm ", printable(slurms), ": ",
                required ? "every srun fails" : "srun has no --container-image and --environment");
        found.cure = cat("Build Sarus with the headers of Slurm ", printable(slurms));
    } else if (required) {
        found.grade = Grade::warning;
        found.message += ", and required: an upgrade of Slurm would make every srun fail";
    } else if (!line) {
        found.grade = Grade::note;
        found.message += ", and Slurm does not load it";
        found.cure = cat("Include etc/plugstack.conf of the installation in ", printable(plugstack));
    }
    if (required) {
        found.cure += cat(found.cure.empty() ? "Write" : ". Until then, write",
                          " 'optional' for 'required' in ", printable(line->file));
    }
    return found;
}

}  // namespace

Findings checkSlurm(const Patient& patient) {
    const auto program = findProgram("scontrol");
    const auto srun = findProgram("srun");
    if (!program || !srun) {
        return {note("scontrol and srun are not in PATH")};
    }
    const auto ping = scontrol(*program, {"ping"});
    Findings all{checkController(ping)};
    if (ping.status.ok()) {
        all.push_back(checkPmix(patient, *srun));
    }
    return all;
}

Findings checkSlurmPlugin(const Patient& patient) {
    const auto program = findProgram("scontrol");
    const auto plugin = cat(patient.prefix, "/lib/slurm/spank_sarus.so");
    if (!program || !findProgram("srun") || !pathExists(plugin)) {
        return {};
    }
    const auto release = releaseIn(scontrol(*program, {"--version"}).out);
    return release.empty() ? Findings{}  // without a configuration of Slurm
                           : Findings{checkPlugin(plugin, release, plugstackFile(slurmConfiguration()))};
}

}  // namespace sarus::cli
