#include "hook_contracts/slurm_pmix.hpp"

#include <gmock/gmock.h>

namespace sarus::hook_contracts::slurm_pmix_test {
namespace {

TEST(SlurmPmix, ConfigurationIsReadFromTheOutputOfScontrol) {
    const auto slurm = parseSlurmConfiguration(
        "Configuration data as of 2023-01-01T00:00:00\n"
        "SlurmdSpoolDir          = /var/spool/%n/d-%h\n"
        "SlurmdSyslogDebug       = (null)\n"
        "TmpFS                   = /local/tmp\n",
        "nid001");
    EXPECT_EQ(slurm.spool, "/var/spool/nid001/d-nid001");
    EXPECT_EQ(slurm.tmp, "/local/tmp");
    const auto defaults = parseSlurmConfiguration("TmpFS = (null)\n", "nid001");
    EXPECT_EQ(defaults.spool, "/var/spool/slurmd");
    EXPECT_EQ(defaults.tmp, "/tmp");
}

}  // namespace
}  // namespace sarus::hook_contracts::slurm_pmix_test
