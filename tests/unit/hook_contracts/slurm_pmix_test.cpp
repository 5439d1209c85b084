#include "hook_contracts/slurm_pmix.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "base/temporary_directory.hpp"

namespace sarus::hook_contracts::slurm_pmix_test {
namespace {

class SlurmPmix : public testing::Test {
protected:
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(directory / name) << text;
    }
    SlurmDirectories read() const { return readSlurmConfiguration(directory / "slurm.conf", "nid001"); }

    test::TemporaryDirectory directory;
};

TEST_F(SlurmPmix, DirectoriesAreThoseOfSlurmConf) {
    write("slurm.conf",
          "ClusterName=big # TmpFS=/no\nslurmdspooldir = /var/spool/%n/d-%h\nSlurmdSyslogDebug=(null)\n"
          "TmpFS=/local/tmp\n");
    EXPECT_EQ(read().spool, "/var/spool/nid001/d-nid001");
    EXPECT_EQ(read().tmp, "/local/tmp");
    write("slurm.conf", "TmpFS = (null)\n#SlurmdSpoolDir=/no\n");
    EXPECT_EQ(read().spool, "/var/spool/slurmd");
    EXPECT_EQ(read().tmp, "/tmp");
}

TEST_F(SlurmPmix, IncludedFilesCountToo) {
    write("slurm.conf", "Include nodes.conf\ninclude   missing.conf\nTmpFS=/local/tmp\n");
    write("nodes.conf", "SlurmdSpoolDir=/local/spool\nTmpFS=/earlier\nInclude " + directory / "slurm.conf\n");
    EXPECT_EQ(read().spool, "/local/spool") << "files that include each other come to an end";
    EXPECT_EQ(read().tmp, "/local/tmp");
}

}  // namespace
}  // namespace sarus::hook_contracts::slurm_pmix_test
