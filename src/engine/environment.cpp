#include "engine/environment.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "engine/cuda.hpp"
#include "engine/run_options.hpp"
#include "hook_contracts/callers_settings.hpp"
#include "hook_contracts/enter_call.hpp"

namespace sarus::engine {

namespace {

std::optional<std::pair<std::string, std::string>> splitEntry(std::string_view entry) {
    const auto separator = entry.find('=');
    if (separator == 0 || separator == std::string_view::npos) {
        return std::nullopt;
    }
    return std::pair{std::string(entry.substr(0, separator)), std::string(entry.substr(separator + 1))};
}

/// The image describes its own PMIx installation; the variables PMIX_* belong to the workload manager. An
/// image must not name files or tasks for hooks.
void applyImage(const std::vector<std::string>& entries, Environment& container) {
    for (const auto& entry : entries) {
        if (auto variable = splitEntry(entry); variable && !variable->first.starts_with("PMIX_") &&
                                               !hook_contracts::isCallersVariable(variable->first)) {
            container[variable->first] = std::move(variable->second);
        }
    }
}

/// Open MPI's PMIx v3 client selects its components by MCA variables; Slurm sets only the PMIx names.
void applyPmix(const Environment& host, Environment& container) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> variables{
        {{"PMIX_PTL_MODULE", "PMIX_MCA_ptl"},
         {"PMIX_SECURITY_MODE", "PMIX_MCA_psec"},
         {"PMIX_GDS_MODULE", "PMIX_MCA_gds"}}};
    for (const auto& [from, to] : variables) {
        if (const auto value = valueOf(host, from); !value.empty() && valueOf(host, to).empty()) {
            container[std::string(to)] = value;
        }
    }
}

/// "nid[001-004,7],login" -> "nid001": the first name of a list of Slurm.
std::string firstNode(std::string_view list) {
    std::string name;
    for (std::size_t at = 0; at < list.size() && list[at] != ',';) {
        if (list[at] != '[') {
            name += list[at++];
            continue;
        }
        const auto end = std::min(list.find(']', at), list.size());
        const auto range = list.substr(at + 1, end - at - 1);
        name += range.substr(0, range.find_first_of("-,"));
        at = end + 1;
    }
    return name;
}

/// What torch.distributed asks for (init_method env://), in a step of Slurm and for images that say that they
/// hold PyTorch. Values of the caller and of the image stay.
void applyPytorch(const Environment& host, Environment& container) {
    constexpr std::uint64_t firstPort = 61000;  // above those that Linux gives to connections
    constexpr std::uint64_t ports = 4513;       // a prime number: neighbouring jobs and their steps differ
    constexpr std::uint64_t stepsOfJob = 17;
    const auto job = parseNumber(valueOf(host, "SLURM_JOB_ID"));
    const auto step = parseNumber(valueOf(host, "SLURM_STEP_ID"));
    const auto nodes = valueOf(host, "SLURM_STEP_NODELIST");
    if (!container.contains("PYTORCH_VERSION") || !job || !step || nodes.empty()) {
        return;
    }
    container.try_emplace("MASTER_ADDR", firstNode(nodes));
    container.try_emplace("MASTER_PORT", cat(firstPort + (*job * stepsOfJob + *step) % ports));
    constexpr std::array<std::pair<const char*, std::string_view>, 3> variables{
        {{"WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}, {"RANK", "SLURM_PROCID"}, {"LOCAL_RANK", "SLURM_LOCALID"}}};
    for (const auto& [name, slurms] : variables) {
        if (const auto value = valueOf(host, slurms); !value.empty()) {
            container.try_emplace(name, value);
        }
    }
}

/// An empty element of a search path means the working directory, so nothing is joined to an empty value.
void applySite(const SiteEnvironment& site, Environment& container) {
    for (const auto& [name, value] : site.set) {
        container[name] = value;
    }
    for (const auto& [name, value] : site.prepend) {
        auto& current = container[name];
        current = current.empty() ? value : cat(value, ":", current);
    }
    for (const auto& [name, value] : site.append) {
        auto& current = container[name];
        current = current.empty() ? value : cat(current, ":", value);
    }
    for (const auto& name : site.unset) {
        container.erase(name);
    }
}

/// What tells programs that they are in a container: "container" is a convention of systemd, Podman and
/// others. They take the place of those of a container around this one and of the image.
constexpr const char* insideVariable = "container";
constexpr const char* imageVariable = "SARUS_CONTAINER";

/// Of the caller who is root inside. What the image says stays, and so does a home that the caller mounts.
void applyRoot(const LaunchRequest& request, const Environment& host, Environment& container) {
    const auto image = parseEnvironment(request.metadata.env);
    const auto set = [&](const char* name, const char* value) {
        if (!image.contains(name)) {
            container[name] = value;
        }
    };
    const auto home = valueOf(host, "HOME");
    if (std::none_of(request.mounts.begin(), request.mounts.end(),
                     [&](const auto& mount) { return mount.destination == home; })) {
        set("HOME", "/root");
    }
    set("USER", "root");
    set("LOGNAME", "root");
    set("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    set("APT_CONFIG", hook_contracts::aptConfiguration);
}

/// Records what each step has changed, if there is a place to record it.
class Origins {
public:
    Origins(std::map<std::string, std::string>* noted, const Environment& container)
        : origins(noted), current(container) {}

    void changedBy(const char* step) {
        if (origins == nullptr) {
            return;
        }
        for (const auto& [name, value] : current) {
            const auto before = last.find(name);
            if (before == last.end() || before->second != value) {
                (*origins)[name] = step;
            }
        }
        last = current;
    }

private:
    std::map<std::string, std::string>* origins;
    const Environment& current;
    Environment last;
};

}  // namespace

std::string_view valueOf(const Environment& environment, std::string_view name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string_view() : std::string_view(found->second);
}

Environment parseEnvironment(const std::vector<std::string>& entries) {
    Environment environment;
    for (const auto& entry : entries) {
        if (auto variable = splitEntry(entry)) {
            environment.insert(std::move(*variable));
        }
    }
    return environment;
}

bool isUnsecureVariable(std::string_view name) {
    constexpr std::array<std::string_view, 27> names{
        "GCONV_PATH",      "GETCONF_DIR",      "GLIBC_TUNABLES",
        "HOSTALIASES",     "LD_AUDIT",         "LD_DEBUG",
        "LD_DEBUG_OUTPUT", "LD_DYNAMIC_WEAK",  "LD_HWCAP_MASK",
        "LD_LIBRARY_PATH", "LD_ORIGIN_PATH",   "LD_PREFER_MAP_32BIT_EXEC",
        "LD_PRELOAD",      "LD_PROFILE",       "LD_PROFILE_OUTPUT",
        "LD_SHOW_AUXV",    "LD_USE_LOAD_BIAS", "LOCALDOMAIN",
        "LOCPATH",         "MALLOC_CHECK_",    "MALLOC_TRACE",
        "NIS_PATH",        "NLSPATH",          "RESOLV_HOST_CONF",
        "RES_OPTIONS",     "TMPDIR",           "TZDIR"};
    return std::find(names.begin(), names.end(), name) != names.end();
}

void applyEnvironmentOptions(const std::vector<std::string>& options, const Environment& host,
                             Environment& container) {
    for (const auto& option : options) {
        auto [name, value] = parseEnvironmentOption(option);
        if (value) {
            container[name] = std::move(*value);
        } else if (const auto found = host.find(name); found != host.end()) {
            container[name] = found->second;
        }
    }
}

Environment makeEnvironment(const SiteConfig& config, const LaunchRequest& request,
                            std::map<std::string, std::string>* origins,
                            const std::optional<std::string>& gpus) {
    auto host = parseEnvironment(request.hostEnvironment);
    if (request.hold) {  // the first task's: the container is of all of them
        for (const auto* name : {"SLURM_PROCID", "SLURM_LOCALID", "ROCR_VISIBLE_DEVICES"}) {
            host.erase(name);
        }
    }
    auto container = host;
    Origins noted(origins, container);
    std::erase_if(container, [](const auto& variable) { return isUnsecureVariable(variable.first); });
    noted.changedBy("host environment");
    applyImage(request.metadata.env, container);
    noted.changedBy("image");
    if (!request.imageReference.empty()) {  // a command in a running container has its variables
        container.insert_or_assign(insideVariable, std::string("sarus"));
        container.insert_or_assign(imageVariable, request.imageReference);
    }
    if (request.remapRoot) {
        applyRoot(request, host, container);
    }
    noted.changedBy("container engine");
    rewriteCudaVariables(host, request.hold ? std::string(allGpus) : gpus, container);
    noted.changedBy("container engine (renumbered GPUs)");
    applyPytorch(host, container);
    noted.changedBy("container engine (PyTorch)");
    if (config.enablePmixV3Support.value_or(false)) {
        applyPmix(host, container);
        noted.changedBy("site configuration (enablePMIxv3Support)");
    }
    if (request.init) {
        container.insert_or_assign("TINI_SUBREAPER", std::string("1"));
        noted.changedBy("container engine (--init)");
    }
    applySite(config.environment, container);
    noted.changedBy("site configuration (environment)");
    for (const auto& name : request.unsetEnv) {
        container.erase(name);
    }
    applyEnvironmentOptions(request.env, host, container);
    noted.changedBy("command line (--env)");
    for (const auto& [name, value] : container) {
        const auto found = request.optionOrigins.find(optionKey("--env", name));
        if (origins != nullptr && found != request.optionOrigins.end() &&
            (*origins)[name] == "command line (--env)") {
            (*origins)[name] = found->second;
        }
    }
    return container;
}

std::vector<std::string> localesOfHost(const Environment& container, const std::vector<std::string>& own) {
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    std::vector<std::string> names;
    for (const auto& [name, value] : container) {
        if ((name == "LANG" || name.starts_with("LC_")) &&
            name.find_first_not_of(letters) == std::string::npos &&
            std::find(own.begin(), own.end(), name) == own.end()) {
            names.push_back(name);
        }
    }
    return names;
}

std::vector<std::string> ownVariables(const SiteConfig& config, const LaunchRequest& request) {
    Environment own;
    applyImage(request.metadata.env, own);
    applySite({.set = config.environment.set,
               .prepend = config.environment.prepend,
               .append = config.environment.append,
               .unset = {}},
              own);
    std::set<std::string> names{insideVariable, imageVariable};
    for (const auto& variable : own) {
        names.insert(variable.first);
    }
    for (const auto& option : request.env) {
        names.insert(parseEnvironmentOption(option).first);
    }
    if (request.init) {
        names.emplace("TINI_SUBREAPER");
    }
    if (request.remapRoot) {
        names.insert({"HOME", "USER", "LOGNAME", "PATH", "APT_CONFIG"});
    }
    return {names.begin(), names.end()};
}

}  // namespace sarus::engine
