#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/text.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/hook_check.hpp"
#include "doctor/node_checks.hpp"
#include "doctor/runtime_version.hpp"
#include "doctor/subordinate_ids.hpp"
#include "image/transfer/file_policy.hpp"
#include "image/transfer/login.hpp"

namespace sarus::cli {

namespace {

using Grade = Finding::Grade;

constexpr const char* installAgain = "Install Sarus again: cmake --install BUILD_DIRECTORY";

std::string makePrivileged(const std::string& starter) {
    return cat("chown root:root ", starter, " && chmod 4755 ", starter, " # as root");
}

/// What mends `message` of the starter, which quotes a path that others can change.
std::string protectPath(const std::string& message, const Patient& patient) {
    const auto begin = message.find('"');
    const auto end = message.find('"', begin + 1);
    if (end == std::string::npos) {
        return cat("Correct the path in ", printable(patient.configFile));
    }
    const auto path = message.substr(begin + 1, end - begin - 1);
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || (status.st_mode & S_ISVTX) != 0) {  // such as /tmp
        return cat("Let only root write to what leads to the installation and to the files in ",
                   printable(patient.configFile), ": move them to another directory");
    }
    const auto word = shellWord(path);
    return cat("chown root ", word, " && chmod go-w ", word, " # as root");
}

/// Whether the starter accepts the installation.
Finding checkPermissions(const Patient& patient, const AskStarter& ask) {
    if (!patient.config.securityChecks) {
        return Finding{
            "permissions", patient.isPrivileged ? Grade::warning : Grade::note,
            "securityChecks is false: nobody checks who can change the programs that containers need",
            cat("Set securityChecks to true in ", printable(patient.configFile))};
    }
    try {
        ask(engine::ListRequest{});
    } catch (const Error& error) {
        return {"permissions", Grade::error, error.what(),
                error.hint().empty() ? protectPath(error.what(), patient) : error.hint()};
    }
    return {"permissions", Grade::ok,
            patient.isPrivileged || ::geteuid() == 0 ? "only root can change the installation"
                                                     : "only you and root can change the installation"};
}

/// What a dry run of a container says about privileges.
Finding describePrivileges(const Patient& patient, const AskStarter& ask, const std::string& starter) {
    std::string answer;
    const auto image = openFile("/dev/null", O_RDONLY);  // a dry run does not look at it
    engine::LaunchRequest request;
    request.imageFd = image.get();
    request.command = {"true"};
    request.dryRun = true;
    request.logLevel = LogLevel::info;
    try {
        answer = ask(request);
    } catch (Error& error) {
        const bool lacksPrivileges = !patient.config.allowRootless && !patient.isPrivileged;
        throw error.setHint(!error.hint().empty() ? error.hint()
                            : lacksPrivileges     ? makePrivileged(shellWord(starter))
                                                  : "sarus --debug run --dry-run IMAGE");
    }
    const auto notice = answer.find("The set-user-ID bit of ");
    if (notice == std::string::npos) {
        return doctor::ok(cat(printable(starter),
                              patient.isPrivileged ? " is set-user-ID root" : " works without privileges"));
    }
    const auto message = answer.substr(notice, answer.find('\n', notice) - notice);
    if (message.find("nosuid") != std::string::npos) {
        return doctor::error(message, cat("mount -o remount,suid $(findmnt -n -o TARGET -T ",
                                          shellWord(patient.prefix), ") # as root"));
    }
    return doctor::warning(message, "grep -e NoNewPrivs /proc/$$/status # start sarus from a shell with 0");
}

}  // namespace

Findings checkStarter(const Patient& patient, const AskStarter& ask) {
    const auto starter = cat(patient.prefix, "/libexec/sarus-starter");
    const auto word = shellWord(starter);
    struct stat status {};
    if (::stat(starter.c_str(), &status) != 0) {
        throw Error::fromErrno(printable(starter), errno, installAgain);
    }
    if (::access(starter.c_str(), X_OK) != 0) {
        throw Error(cat("this user may not execute ", printable(starter)),
                    cat("usermod -aG $(stat -c %G ", word, ") $(id -un ", ::geteuid(), ") # as root"));
    }
    if ((status.st_mode & S_ISUID) != 0 && !patient.isPrivileged) {
        throw Error(cat(printable(starter), " is set-user-ID, but belongs to user ", status.st_uid),
                    makePrivileged(word));
    }
    if (!patient.isConfigured) {
        return {doctor::note(cat(printable(starter), " was not asked without a configuration"))};
    }
    const auto permissions = checkPermissions(patient, ask);
    if (permissions.grade == Grade::error) {
        return {permissions};
    }
    try {
        return {describePrivileges(patient, ask, starter), permissions};
    } catch (const Error& error) {
        return {doctor::error(error.what(), error.hint()), permissions};
    }
}

Findings checkPrograms(const Patient& patient) {
    for (const auto* program :
         {"/libexec/sarus-hook", "/libexec/sarus-image-builder", "/bin/sarus-squashfs"}) {
        const auto path = cat(patient.prefix, program);
        if (::access(path.c_str(), X_OK) != 0) {
            throw Error::fromErrno(printable(path), errno, installAgain);
        }
    }
    return {};
}

Findings checkSeccomp(const Patient& patient) {
    const auto& profile = patient.config.seccompProfile;
    if (!patient.isConfigured) {
        return {};
    }
    if (!profile) {
        return {doctor::note("containers have no filter of system calls",
                             cat("Set \"seccompProfile\": \"", printable(patient.prefix), "/etc/seccomp/",
                                 patient.isPrivileged ? "default" : "rootless", ".json\" in ",
                                 printable(patient.configFile)))};
    }
    if (::access(profile->c_str(), R_OK) != 0) {
        throw Error(cat(printable(*profile), " cannot be read"), patient.set("seccompProfile"));
    }
    return {doctor::ok(printable(*profile))};
}

Findings checkRuntime(const Patient& patient) {
    const auto& program = patient.config.runcPath;
    const auto choose = patient.set("runcPath");
    return program.empty() ? Findings{}
                           : Findings{doctor::checkRuntime(
                                 program, cat("apt-get install crun # as root. ", choose), choose)};
}

Findings checkInit(const Patient& patient) {
    const auto& program = patient.config.initPath;
    if (program && ::access(program->c_str(), X_OK) != 0) {
        throw Error(cat(printable(*program), " cannot be executed"), patient.set("initPath"));
    }
    return {};
}

Findings checkRemapRoot(const Patient& patient) {
    if (!patient.config.allowRootless) {
        return {doctor::note("this site does not let users be root in containers (allowRootless is false)")};
    }
    if (const auto reason = doctor::whyNoUserNamespace()) {
        return {doctor::note(cat("users cannot be root in containers: ", reason->what()), reason->hint())};
    }
    return doctor::checkSubordinateIds(
        ::geteuid(), hostVariable("USER"),
        {.grade = Grade::note,
         .withoutIds = "--remap-root works with one id: all files that root makes for other users are yours",
         .withFewIds = "--remap-root fails for files of users with larger ids",
         .furtherCure = ""});
}

Findings checkHooks(const Patient& patient) {
    const auto& directory = patient.config.hooksDir;
    if (!directory) {
        return patient.isConfigured ? Findings{doctor::ok("none are configured")} : Findings{};
    }
    Findings all;
    const auto report = checkHookFiles(*directory, cat(patient.prefix, "/bin"));
    for (const auto& remark : report.remarks) {
        all.push_back(remark.isMistake
                          ? doctor::error(remark.text, "sarus hooks --check # after you have corrected it")
                          : doctor::note(remark.text));
    }
    if (!report.areThereMistakes()) {
        all.push_back(doctor::ok(cat(report.files, " hook files in ", printable(*directory), " are fine")));
    }
    return all;
}

Findings checkDownloads(const Patient& patient) {
    const auto& skopeo = patient.config.skopeoPath;
    if (skopeo.empty()) {
        return {};
    }
    image::forgetForeignHome();
    Findings all;
    const auto add = [&](const std::string& name, const std::string& cure, const auto& find) {
        try {
            all.push_back({name, Grade::ok, find()});
        } catch (const Error& error) {
            all.push_back({name, Grade::error, error.what(), error.hint().empty() ? cure : error.hint()});
        }
    };
    add("skopeo", cat("apt-get install skopeo # as root. ", patient.set("skopeoPath")), [&] {
        const auto answer = doctor::askVersion(skopeo, "");
        return cat(printable(skopeo), ", ", printable(split(answer, '\n').front()));
    });
    add("image policy", "man containers-policy.json", [&] {
        const auto& policy = patient.config.containersPolicy;
        return printable(image::policyFile(
            policy ? std::optional(image::PolicyChoice{policy->path, policy->enforce}) : std::nullopt,
            hostVariable("HOME").value_or("")));
    });
    return all;
}

}  // namespace sarus::cli
