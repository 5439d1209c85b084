#include <sys/stat.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "cli/doctor/checks.hpp"

namespace sarus::cli {

using Grade = Finding::Grade;

std::string Patient::set(std::string_view key) const {
    return cat("Set ", key, " in ", printable(configFile));
}

Patient makePatient(const std::string& prefix) {
    Patient patient{.prefix = prefix, .configFile = cat(prefix, "/etc/sarus.json")};
    try {
        patient.config = engine::reviewSiteConfig(readFile(patient.configFile), patient.configFile).config;
        patient.isConfigured = !patient.config.prefixDir.empty();
    } catch (const Error&) {
        // checkConfiguration() reports it
    }
    struct stat status {};
    patient.isPrivileged = ::stat(cat(prefix, "/libexec/sarus-starter").c_str(), &status) == 0 &&
                           status.st_uid == 0 && (status.st_mode & S_ISUID) != 0;
    return patient;
}

std::string howToConfigure(const std::string& prefix) {
    return cat("cd ", shellWord(prefix), " && ./configure_installation.sh # as root, or with --rootless");
}

Findings reviewConfiguration(const std::string& file, const std::string& cureIfMissing) {
    std::string text;
    try {
        text = readFile(file);
    } catch (Error& error) {
        throw error.setHint(error.errnum() == ENOENT ? cureIfMissing
                                                     : cat("chmod 644 ", shellWord(file), " # as its owner"));
    }
    Findings all;
    const auto review = engine::reviewSiteConfig(text, file);
    const auto add = [&](Grade grade, const std::vector<Error>& errors) {
        for (const auto& error : errors) {
            all.push_back({"", grade, error.what(), error.hint().empty() ? "man sarus.json" : error.hint()});
        }
    };
    add(Grade::error, review.problems);
    add(Grade::warning, review.warnings);
    add(Grade::note, review.notes);
    if (review.problems.empty()) {
        all.push_back(doctor::ok(cat(printable(file), " is valid")));
    }
    return all;
}

Findings checkConfiguration(const Patient& patient) {
    auto all = reviewConfiguration(patient.configFile, howToConfigure(patient.prefix));
    const auto& configured = patient.config.prefixDir;
    if (!configured.empty() && configured != patient.prefix) {
        all.push_back(doctor::warning(cat("prefixDir is ", printable(configured),
                                          ", but this program is installed in ", printable(patient.prefix)),
                                      patient.set("prefixDir")));
    }
    return all;
}

}  // namespace sarus::cli
