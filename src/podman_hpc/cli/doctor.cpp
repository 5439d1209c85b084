#include "podman_hpc/doctor/doctor.hpp"

#include "base/text.hpp"
#include "podman_hpc/cli/commands.hpp"

namespace sarus::podman_hpc {

int doctor(const Call& call, const Surroundings& from) {
    bool json = false;
    for (const auto& word : call.words) {
        if (word != "--json") {
            throw usageError(word.starts_with('-')
                                 ? cat("No such option: ", printable(word))
                                 : cat("Got unexpected extra argument (", printable(word), ")"),
                             "doctor [options]");
        }
        json = true;
    }
    const auto settings = settingsOf(call, from);
    return report(examine({settings, squashPlace(from, call.squashDir), from}), json);
}

}  // namespace sarus::podman_hpc
