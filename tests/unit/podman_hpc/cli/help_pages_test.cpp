#include "podman_hpc/cli/help_pages.hpp"

#include <gtest/gtest.h>

#include "podman_hpc/cli/podman.hpp"

namespace sarus::podman_hpc::help_pages_test {
namespace {

TEST(RenamePodman, OnlyTheProgramsNameIsReplaced) {
    EXPECT_EQ(renamePodman("podman run; see 'podman ps'. Use podman."),
              "podman-hpc run; see 'podman-hpc ps'. Use podman-hpc.");
    for (const auto* same :
         {"/tmp/podman-run-1002", "unix:/run/podman/podman.sock", "Podman", "podman-remote"}) {
        EXPECT_EQ(renamePodman(same), same);
    }
}

TEST(PodmanHelpPage, HasTheOptionsOfTheModulesInFront) {
    const std::string page = "Usage:\n  podman run\n\nOptions:\n  --rm  Remove\n";
    EXPECT_EQ(podmanHelpPage(page, {}),
              "Usage:\n  podman-hpc run\n\nPodman options follow:\n  --rm  Remove\n");
    Module shown{.file = "", .name = "gpu", .flag = "gpu", .help = "GPUs"};
    Module hidden{.file = "", .name = "x", .flag = "x", .hidden = true};
    EXPECT_EQ(podmanHelpPage(page, {shown, hidden}),
              "Usage:\n  podman-hpc run\n\nPodman-hpc Options:\n  --gpu               GPUs\n\n"
              "Podman options follow:\n  --rm  Remove\n");
}

}  // namespace
}  // namespace sarus::podman_hpc::help_pages_test
