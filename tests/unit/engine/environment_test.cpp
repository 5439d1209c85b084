#include "engine/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "engine/cuda.hpp"

namespace sarus::engine::environment_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Key;
using testing::Not;
using testing::Pair;

struct EnvironmentTest : testing::Test {
    SiteConfig config;
    LaunchRequest request;
    Environment make() { return makeEnvironment(config, request); }
};

TEST_F(EnvironmentTest, HostVariablesReachTheContainer) {
    request.hostEnvironment = {"HOME=/home/u", "EMPTY=", "EQUALS=a=b", "SPACE NAME=x"};
    EXPECT_THAT(make(), ElementsAre(Pair("EMPTY", ""), Pair("EQUALS", "a=b"), Pair("HOME", "/home/u"),
                                    Pair("SPACE NAME", "x")));
}

TEST_F(EnvironmentTest, ImagesOfPytorchFindTheirRanksInAStep) {
    request.hostEnvironment = {
        "SLURM_JOB_ID=100",       "SLURM_STEP_ID=2", "SLURM_STEP_NODELIST=nid[007-009,3]-x,other",
        "SLURM_STEP_NUM_TASKS=8", "SLURM_PROCID=5",  "SLURM_LOCALID=1",
        "WORLD_SIZE=mine"};
    EXPECT_THAT(make(), Not(Contains(Key("MASTER_ADDR"))));
    request.metadata.env = {"PYTORCH_VERSION=2.3", "RANK=of the image"};
    EXPECT_THAT(make(), testing::IsSupersetOf({Pair("MASTER_ADDR", "nid007-x"), Pair("MASTER_PORT", "62702"),
                                               Pair("WORLD_SIZE", "mine"), Pair("RANK", "of the image"),
                                               Pair("LOCAL_RANK", "1")}));
    config.environment.unset = {"MASTER_ADDR"};
    EXPECT_THAT(make(), Not(Contains(Key("MASTER_ADDR"))));
    request.hostEnvironment = {"SLURM_JOB_ID=100", "SLURM_PROCID=0", "SLURM_LOCALID=0"};  // a batch script
    EXPECT_THAT(make(), Not(Contains(Key("MASTER_PORT"))));
}

TEST_F(EnvironmentTest, LocalesOfTheHostAreThoseThatNobodyChose) {
    EXPECT_THAT(
        localesOfHost({{"LANG", "x"}, {"LANGUAGE", "x"}, {"LC_ALL", "x"}, {"LC_,", "x"}, {"LC_TIME", "x"}},
                      {"LC_TIME"}),
        ElementsAre("LANG", "LC_ALL"));
}

TEST_F(EnvironmentTest, MalformedHostEntriesAreSkipped) {
    request.hostEnvironment = {"=x", "", "=", "NOVALUE", "A=1"};
    EXPECT_THAT(make(), ElementsAre(Pair("A", "1")));
}

TEST_F(EnvironmentTest, OfDuplicateHostEntriesTheFirstCounts) {
    request.hostEnvironment = {"A=1", "A=2"};
    EXPECT_THAT(make(), ElementsAre(Pair("A", "1")));
}

TEST_F(EnvironmentTest, EachSourceOverridesTheOnesBefore) {
    request.hostEnvironment = {"IMAGE=host", "SITE=host", "CLI=host"};
    request.metadata.env = {"IMAGE=image", "SITE=image", "CLI=image", "malformed"};
    config.environment.set = {{"SITE", "site"}, {"CLI", "site"}};
    request.env = {"CLI=cli"};
    EXPECT_THAT(make(), ElementsAre(Pair("CLI", "cli"), Pair("IMAGE", "image"), Pair("SITE", "site")));
}

TEST_F(EnvironmentTest, RootInsideHasAHomeUnlessTheCallerOrTheImageChoseOne) {
    request.hostEnvironment = {"HOME=/home/u", "USER=u", "PATH=/host/bin"};
    request.remapRoot = true;
    EXPECT_THAT(make(),
                IsSupersetOf({Pair("HOME", "/root"), Pair("USER", "root"), Pair("LOGNAME", "root"),
                              Pair("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")}));
    request.metadata.env = {"HOME=/image", "PATH=/image/bin"};
    EXPECT_THAT(make(), IsSupersetOf({Pair("HOME", "/image"), Pair("PATH", "/image/bin")}));
    request.metadata.env.clear();
    request.mounts = {oci::mountInPlace("/home/u")};
    EXPECT_THAT(make(), Contains(Pair("HOME", "/home/u")));
    request.env = {"HOME=/chosen"};
    EXPECT_THAT(make(), Contains(Pair("HOME", "/chosen")));
}

TEST_F(EnvironmentTest, VariablesThatAreUnsetAreGoneUnlessTheCommandLineSetsThem) {
    request.hostEnvironment = {"HOST=1", "BACK=1", "KEPT=1"};
    request.metadata.env = {"IMAGE=1"};
    config.environment.set = {{"SITE", "1"}};
    request.unsetEnv = {"HOST", "IMAGE", "SITE", "BACK", "NEVER"};
    request.env = {"BACK=cli"};
    EXPECT_THAT(make(), ElementsAre(Pair("BACK", "cli"), Pair("KEPT", "1")));
}

TEST_F(EnvironmentTest, UnsecureVariablesOfTheHostAreDropped) {
    request.hostEnvironment = {"LD_LIBRARY_PATH=/x", "LD_PRELOAD=/x.so",    "TMPDIR=/scratch",
                               "GCONV_PATH=/x",      "LD_AUDIT=/x",         "MALLOC_TRACE=/x",
                               "GLIBC_TUNABLES=a=b", "LOCPATH=/x",          "TZDIR=/x",
                               "NLSPATH=/x",         "RESOLV_HOST_CONF=/x", "HOSTALIASES=/x"};
    EXPECT_THAT(make(), IsEmpty());
}

TEST_F(EnvironmentTest, SimilarNamesAreKept) {
    request.hostEnvironment = {"TMP=/t", "LD_LIBRARY_PATH_64=/x", "MALLOC_ARENA_MAX=2", "LANG=C", "TZ=UTC"};
    EXPECT_EQ(make().size(), 5U);
}

TEST_F(EnvironmentTest, ImageSiteAndCommandLineMaySetUnsecureVariables) {
    request.hostEnvironment = {"LD_LIBRARY_PATH=/host", "TMPDIR=/host", "LD_PRELOAD=/host"};
    request.metadata.env = {"LD_LIBRARY_PATH=/image"};
    config.environment.set = {{"TMPDIR", "/site"}};
    request.env = {"LD_PRELOAD=/cli"};
    EXPECT_THAT(make(), ElementsAre(Pair("LD_LIBRARY_PATH", "/image"), Pair("LD_PRELOAD", "/cli"),
                                    Pair("TMPDIR", "/site")));
}

TEST_F(EnvironmentTest, TheImageNamesNoFilesOrTasksForHooks) {
    for (const std::string name :
         {"TIMESTAMP_HOOK_LOGFILE", "SLURM_JOB_ID", "SLURM_STEPID", "SLURM_STEP_ID", "SLURM_NTASKS",
          "SLURM_PROCID", "SLURM_GTIDS", "SLURM_NODEID", "SLURM_RESTART_COUNT"}) {
        request = {};
        request.metadata.env = {name + "=image"};
        EXPECT_THAT(make(), IsEmpty()) << name;
        request.hostEnvironment = {name + "=host"};
        EXPECT_THAT(make(), ElementsAre(Pair(name, "host")));
        request.env = {name + "=caller"};
        EXPECT_THAT(make(), ElementsAre(Pair(name, "caller")));
    }
}

TEST_F(EnvironmentTest, PmixVariablesOfTheImageAreIgnored) {
    request.hostEnvironment = {"PMIX_RANK=3"};
    request.metadata.env = {"PMIX_RANK=image", "PMIX_X=image", "PMI_X=image"};
    EXPECT_THAT(make(), ElementsAre(Pair("PMIX_RANK", "3"), Pair("PMI_X", "image")));
}

TEST_F(EnvironmentTest, PmixModulesBecomeMcaVariables) {
    config.enablePmixV3Support = true;
    request.hostEnvironment = {"PMIX_PTL_MODULE=tcp", "PMIX_SECURITY_MODE=munge", "PMIX_GDS_MODULE=ds12"};
    const auto environment = make();
    EXPECT_THAT(environment, Contains(Pair("PMIX_MCA_ptl", "tcp")));
    EXPECT_THAT(environment, Contains(Pair("PMIX_MCA_psec", "munge")));
    EXPECT_THAT(environment, Contains(Pair("PMIX_MCA_gds", "ds12")));
}

TEST_F(EnvironmentTest, McaVariablesThatTheHostHasAreKept) {
    config.enablePmixV3Support = true;
    request.hostEnvironment = {"PMIX_PTL_MODULE=tcp", "PMIX_MCA_ptl=mine", "PMIX_SECURITY_MODE=munge",
                               "PMIX_MCA_psec=", "PMIX_GDS_MODULE="};
    const auto environment = make();
    EXPECT_THAT(environment, Contains(Pair("PMIX_MCA_ptl", "mine")));
    EXPECT_THAT(environment, Contains(Pair("PMIX_MCA_psec", "munge")));
    EXPECT_THAT(environment, Not(Contains(Key("PMIX_MCA_gds"))));
}

TEST_F(EnvironmentTest, WithoutPmixSupportNoMcaVariableIsMade) {
    request.hostEnvironment = {"PMIX_PTL_MODULE=tcp"};
    EXPECT_THAT(make(), Not(Contains(Key("PMIX_MCA_ptl"))));
}

TEST_F(EnvironmentTest, InitBecomesASubreaper) {
    EXPECT_THAT(make(), Not(Contains(Key("TINI_SUBREAPER"))));
    request.init = true;
    EXPECT_THAT(make(), Contains(Pair("TINI_SUBREAPER", "1")));
    config.environment.unset = {"TINI_SUBREAPER"};
    EXPECT_THAT(make(), Not(Contains(Key("TINI_SUBREAPER"))));
}

TEST_F(EnvironmentTest, SitePrependsAndAppendsWithColons) {
    request.hostEnvironment = {"PATH=/bin"};
    config.environment.prepend = {{"PATH", "/first"}};
    config.environment.append = {{"PATH", "/last"}};
    EXPECT_THAT(make(), ElementsAre(Pair("PATH", "/first:/bin:/last")));
}

TEST_F(EnvironmentTest, PrependAndAppendToAnUnsetOrEmptyVariableGiveTheValueAlone) {
    request.hostEnvironment = {"EMPTY="};
    config.environment.prepend = {{"P", "/p"}, {"EMPTY", "/e"}};
    config.environment.append = {{"A", "/a"}};
    EXPECT_THAT(make(), ElementsAre(Pair("A", "/a"), Pair("EMPTY", "/e"), Pair("P", "/p")));
}

TEST_F(EnvironmentTest, SiteOperationsAreDoneInTheOrderSetPrependAppendUnset) {
    config.environment.set = {{"A", "set"}, {"GONE", "set"}};
    config.environment.prepend = {{"A", "pre"}, {"GONE", "pre"}};
    config.environment.append = {{"A", "app"}};
    config.environment.unset = {"GONE", "NEVER_THERE"};
    EXPECT_THAT(make(), ElementsAre(Pair("A", "pre:set:app")));
}

TEST_F(EnvironmentTest, CommandLineSetsWhatTheSiteHasUnset) {
    config.environment.unset = {"A"};
    request.env = {"A=1", "B=x=y", "C="};
    EXPECT_THAT(make(), ElementsAre(Pair("A", "1"), Pair("B", "x=y"), Pair("C", "")));
}

TEST_F(EnvironmentTest, OfRepeatedOptionsTheLastCounts) {
    request.env = {"A=1", "A=2"};
    EXPECT_THAT(make(), ElementsAre(Pair("A", "2")));
}

TEST_F(EnvironmentTest, AnOptionWithoutValueCopiesTheHosts) {
    request.hostEnvironment = {"A=host", "LD_LIBRARY_PATH=/host"};
    request.metadata.env = {"A=image", "B=image"};
    request.env = {"A", "B", "C", "LD_LIBRARY_PATH"};
    EXPECT_THAT(make(), ElementsAre(Pair("A", "host"), Pair("B", "image"), Pair("LD_LIBRARY_PATH", "/host")));
}

TEST_F(EnvironmentTest, InvalidOptionsAreRefused) {
    request.env = {"=x"};
    EXPECT_THROW(make(), Error);
    request.env = {""};
    EXPECT_THROW(make(), Error);
}

TEST_F(EnvironmentTest, CudaDevicesOfTheHostAreRenumbered) {
    request.hostEnvironment = {"CUDA_VISIBLE_DEVICES=1,2"};
    EXPECT_THAT(make(),
                ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "0,1"), Pair("NVIDIA_DRIVER_CAPABILITIES", "all"),
                            Pair("NVIDIA_VISIBLE_DEVICES", "1,2")));
}

TEST_F(EnvironmentTest, DriverCapabilitiesOfHostOrImageAreKept) {
    request.hostEnvironment = {"CUDA_VISIBLE_DEVICES=0", "NVIDIA_DRIVER_CAPABILITIES=utility"};
    EXPECT_THAT(make(), Contains(Pair("NVIDIA_DRIVER_CAPABILITIES", "utility")));
    request.metadata.env = {"NVIDIA_DRIVER_CAPABILITIES=compute"};
    EXPECT_THAT(make(), Contains(Pair("NVIDIA_DRIVER_CAPABILITIES", "compute")));
}

TEST_F(EnvironmentTest, WithoutCudaDevicesTheImagesNvidiaVariablesAreRemoved) {
    request.metadata.env = {"CUDA_VERSION=9", "CUDA_VISIBLE_DEVICES=0", "NVIDIA_VISIBLE_DEVICES=all",
                            "NVIDIA_DRIVER_CAPABILITIES=all", "NVIDIA_REQUIRE_CUDA=x"};
    EXPECT_THAT(make(), ElementsAre(Pair("NVIDIA_REQUIRE_CUDA", "x")));
    request.hostEnvironment = {"CUDA_VISIBLE_DEVICES=NoDevFiles"};
    EXPECT_THAT(make(), ElementsAre(Pair("NVIDIA_REQUIRE_CUDA", "x")));
}

TEST_F(EnvironmentTest, SiteAndCommandLineComeAfterTheCudaRewrite) {
    request.hostEnvironment = {"CUDA_VISIBLE_DEVICES=1"};
    request.env = {"CUDA_VISIBLE_DEVICES=7"};
    EXPECT_THAT(make(), Contains(Pair("CUDA_VISIBLE_DEVICES", "7")));
}

TEST_F(EnvironmentTest, AContainerOfSeveralTasksHasAllGpusAndTheirNumbersOfTheNode) {
    request.hostEnvironment = {"CUDA_VISIBLE_DEVICES=3,1", "ROCR_VISIBLE_DEVICES=1"};
    request.hold = true;
    EXPECT_THAT(make(),
                ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "3,1"), Pair("NVIDIA_DRIVER_CAPABILITIES", "all"),
                            Pair("NVIDIA_VISIBLE_DEVICES", "all")));
    request.hostEnvironment = {"CUDA_VISIBLE_DEVICES=NoDevFiles"};
    EXPECT_THAT(make(), ElementsAre());
}

TEST_F(EnvironmentTest, AContainerOfSeveralTasksIsThatOfNoOneTask) {
    request.hostEnvironment = {"SLURM_GTIDS=2,3", "SLURM_LOCALID=0", "SLURM_PROCID=2"};
    request.hold = true;
    EXPECT_THAT(make(), ElementsAre(Pair("SLURM_GTIDS", "2,3")));
}

TEST_F(EnvironmentTest, ACommandThatJoinsCountsTheGpusOfItsContainer) {
    request.hostEnvironment = {"CUDA_VISIBLE_DEVICES=5,3"};
    const auto joined = [&](const char* gpus) { return makeEnvironment(config, request, nullptr, gpus); };
    EXPECT_THAT(joined("5,1,3"),
                ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "2,1"), Pair("NVIDIA_DRIVER_CAPABILITIES", "all"),
                            Pair("NVIDIA_VISIBLE_DEVICES", "5,1,3")));
    EXPECT_THAT(joined("all"), Contains(Pair("CUDA_VISIBLE_DEVICES", "5,3")));
    EXPECT_THAT(joined("3,4"), Contains(Pair("CUDA_VISIBLE_DEVICES", "0"))) << "5 is not there";
    EXPECT_THAT(joined("7"), Contains(Pair("CUDA_VISIBLE_DEVICES", "")));
}

TEST(CudaDevices, EachDeviceBecomesItsPositionInTheSortedList) {
    EXPECT_EQ(renumberDevices("1", "1").devices, "0");
    EXPECT_EQ(renumberDevices("1,2", "1,2").devices, "0,1");
    EXPECT_EQ(renumberDevices("3,1,5", "3,1,5").devices, "1,0,2");
    EXPECT_EQ(renumberDevices(" 4, 2 ", " 4, 2 ").devices, "1,0");
}

TEST(CudaDevices, ThatAreNotPresentAreNamed) {
    EXPECT_EQ(renumberDevices("5,3,4", "3,1").devices, "1");
    EXPECT_EQ(renumberDevices("5,3,4", "3,1").absent, "5,4");
    EXPECT_EQ(renumberDevices("5,3", "all").absent, "");
}

TEST(CudaDevices, NumbersAreSortedByValue) {
    EXPECT_EQ(renumberDevices("3,1,10", "3,1,10").devices, "1,0,2");
    EXPECT_EQ(renumberDevices("11,10,9,8,7,6,5,4,3,2,1,0", "11,10,9,8,7,6,5,4,3,2,1,0").devices,
              "11,10,9,8,7,6,5,4,3,2,1,0");
}

TEST(CudaDevices, UuidsAndMigNamesStayAsTheyAre) {
    EXPECT_EQ(renumberDevices("GPU-c,GPU-a,GPU-b", "GPU-c,GPU-a,GPU-b").devices, "GPU-c,GPU-a,GPU-b");
    EXPECT_EQ(renumberDevices("MIG-GPU-b/1/0", "MIG-GPU-b/1/0").devices, "MIG-GPU-b/1/0");
    EXPECT_EQ(renumberDevices("MIG-a4d1, 3", "MIG-a4d1, 3").devices, "MIG-a4d1, 3");
}

TEST(CudaDevices, WhatIsNotAListOfNumbersStaysAsItIs) {
    EXPECT_EQ(renumberDevices("-1", "-1").devices, "-1");
    EXPECT_EQ(renumberDevices("2,,1", "2,,1").devices, "2,,1");
    EXPECT_EQ(renumberDevices("99999999999999999999999,1", "99999999999999999999999,1").devices,
              "99999999999999999999999,1");
}

TEST(CudaDevices, ARepeatedDeviceKeepsItsNumber) {
    EXPECT_EQ(renumberDevices("2,2,1", "2,2,1").devices, "1,1,0");
}

TEST(CudaDevices, AnEmptyListStaysEmpty) {
    EXPECT_EQ(renumberDevices("", "").devices, "");
}

TEST_F(EnvironmentTest, OwnVariablesAreThoseOfImageSiteAndCommandLine) {
    config.environment.set = {{"SET", "1"}};
    config.environment.append = {{"PATH", "/x"}};
    config.environment.unset = {"SET"};
    request.hostEnvironment = {"HOST=1"};
    request.metadata.env = {"IMAGE=1", "PMIX_X=1"};
    request.env = {"HOST", "OPTION=1"};
    EXPECT_THAT(ownVariables(config, request), testing::ElementsAre("HOST", "IMAGE", "OPTION", "PATH",
                                                                    "SARUS_CONTAINER", "SET", "container"));
}

TEST_F(EnvironmentTest, ProgramsFindTheEngineAndTheImage) {
    request.imageReference = "quay.io/a/b:1";
    request.hostEnvironment = {"container=podman", "SARUS_CONTAINER=outer"};
    request.metadata.env = {"container=oci"};
    EXPECT_EQ(makeEnvironment(config, request),
              (Environment{{"SARUS_CONTAINER", "quay.io/a/b:1"}, {"container", "sarus"}}));
    config.environment.set = {{"container", "site"}};
    request.env = {"SARUS_CONTAINER=mine"};
    EXPECT_EQ(makeEnvironment(config, request),
              (Environment{{"SARUS_CONTAINER", "mine"}, {"container", "site"}}));
    request.unsetEnv = {"container"};
    EXPECT_FALSE(makeEnvironment(config, request).contains("container"));
}

}  // namespace
}  // namespace sarus::engine::environment_test
