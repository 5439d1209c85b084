#include "podman_hpc/doctor/doctor.hpp"

#include "doctor/examination.hpp"

namespace sarus::podman_hpc {

std::vector<Finding> examine(const Patient& patient) {
    return doctor::examine({{"programs", [&] { return checkPrograms(patient); }},
                            {"account", [&] { return checkIdentity(patient); }},
                            {"directories", [&] { return checkDirectories(patient); }},
                            {"site", [&] { return checkSite(patient); }},
                            {"image names", [&] { return checkImages(patient); }}});
}

}  // namespace sarus::podman_hpc
