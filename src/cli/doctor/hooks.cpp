#include "base/text.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/hook_check.hpp"

namespace sarus::cli {

namespace {

using Grade = Finding::Grade;

}  // namespace

std::vector<Finding> checkHooks(const Patient& patient) {
    if (!patient.isConfigured) {
        return {};
    }
    const auto& directory = patient.config.hooksDir;
    if (!directory) {
        return {{"hooks", Grade::ok, "none are configured"}};
    }
    std::vector<Finding> all;
    const auto report = checkHookFiles(*directory, cat(patient.prefix, "/bin"));
    for (const auto& remark : report.remarks) {
        all.push_back({"hooks", remark.isMistake ? Grade::error : Grade::note, remark.text,
                       remark.isMistake ? "Correct it, and try again: sarus hooks --check" : ""});
    }
    if (!report.areThereMistakes()) {
        all.push_back(
            {"hooks", Grade::ok, cat(report.files, " hook files in ", printable(*directory), " are fine")});
    }
    return all;
}

}  // namespace sarus::cli
