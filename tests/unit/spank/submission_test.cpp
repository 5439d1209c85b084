#include "spank/submission.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "spank/options.hpp"

namespace sarus::spank::submission_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::map<std::string, std::string> environment;

Caller caller() {
    Caller made{.workingDirectory = "/where",
                .variable = [](const std::string& name) -> std::optional<std::string> {
                    const auto found = environment.find(name);
                    return found == environment.end() ? std::nullopt : std::optional(found->second);
                }};
    for (const auto& [name, value] : environment) {
        if (name.starts_with(peerPrefix)) {
            made.peerVariables.push_back({name, value});
        }
    }
    return made;
}

class Submissions : public testing::Test {
protected:
    void SetUp() override { environment = {{"HOME", "/home/me"}}; }

    static Submission read(const std::vector<GivenOption>& options, bool useVariables = true) {
        return readOptions(options, useVariables, caller()).value();
    }

    static std::string error(const std::vector<GivenOption>& options) {
        try {
            readOptions(options, true, caller());
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }
};

const GivenOption image{"container-image", "tool"};

TEST_F(Submissions, ABatchScriptStartsItsContainer) {
    auto batch = caller();
    batch.isBatch = true;
    EXPECT_TRUE(readOptions({image, {"container-name", "n"}}, false, batch));
    EXPECT_TRUE(readOptions({{"environment", "e"}, {"container-name", "n:no_exec"}}, false, batch));
    for (const auto* joined : {"n:exec", "7.0", "7.0:exec"}) {
        EXPECT_THROW(readOptions({image, {"container-name", joined}}, false, batch), Error) << joined;
    }
    EXPECT_THROW(readOptions({{"container-name", "n"}}, false, batch), Error);
    EXPECT_TRUE(readOptions({{"container-name", "n"}}, false, caller())) << "salloc";
}

TEST_F(Submissions, OptionsOfOneCommandLineDoNotContradict) {
    EXPECT_EQ(error({image, {"no-container-entrypoint", ""}, {"container-entrypoint", ""}}),
              "--no-container-entrypoint and --container-entrypoint contradict each other");
    EXPECT_EQ(error({image, {"container-writable", ""}, {"container-readonly", ""}}),
              "--container-writable and --container-readonly contradict each other");
    EXPECT_EQ(error({image, {"container-image", "other"}}),
              "--container-image: 'tool' and 'other' contradict each other");
    EXPECT_EQ(error({image, image, {"container-mounts", "/a"}, {"container-mounts", "/b"}}), "no error");
    EXPECT_EQ(read({{"container-image", "tool", true}, {"container-image", "other"}}).request.image, "other");
}

TEST_F(Submissions, FlagsThatAreSwitchedOffAreRefusedInAContainerThatRuns) {
    EXPECT_THAT(read({image}).request.refused, IsEmpty());
    EXPECT_THAT(read({image, {"container-writable", ""}, {"no-container-remap-root", ""}}).request.refused,
                ElementsAre("read-only", "remap-root"));
    EXPECT_THAT(read({{"edf", "x"}, {"container-writable", ""}}).request.refused, ElementsAre("read-only"));
    EXPECT_THAT(read({image, {"container-readonly", ""}, {"container-remap-root", ""}}).request.refused,
                IsEmpty());
}

TEST_F(Submissions, RelativeDirectoriesAreLeftToTheImage) {
    for (const auto& [given, option] :
         {std::pair{"x/y", "--workdir=./x/y"}, std::pair{"../x", "--workdir=../x"},
          std::pair{"/x", "--workdir=/x"}, std::pair{".", "--workdir=./."}}) {
        EXPECT_THAT(read({image, {"container-workdir", given}}).request.options, testing::Contains(option));
    }
}

TEST_F(Submissions, NamespacesAreNamed) {
    EXPECT_THAT(read({image, {"container-unshare", "uts,net"}, {"container-unshare", "net"}}).request.options,
                testing::AllOf(testing::Contains("--network=none"), testing::Contains("--uts=private"),
                               testing::Not(testing::Contains("--ipc=private"))));
    EXPECT_EQ(error({image, {"container-unshare", "net,mnt"}}), "--container-unshare: 'mnt' is not known");
}

TEST_F(Submissions, ImagesAreNamedAsInTheOtherPlugins) {
    EXPECT_EQ(imageName("debian:12"), "debian:12");
    EXPECT_EQ(imageName("nvcr.io#nvidia/pytorch:24.01"), "nvcr.io/nvidia/pytorch:24.01");
    EXPECT_EQ(imageName("me@nvcr.io#nvidia/pytorch"), "nvcr.io/nvidia/pytorch");
    EXPECT_EQ(imageName("me@debian:12"), "debian:12");
    EXPECT_EQ(imageName("docker://me@host:5000#a/b"), "host:5000/a/b");
    EXPECT_EQ(imageName("debian@sha256:0123"), "debian@sha256:0123");
    EXPECT_EQ(imageName("host#debian@sha256:0123"), "host/debian@sha256:0123");
}

TEST_F(Submissions, PathsOfImagesBeginWhereTheCallerIs) {
    EXPECT_EQ(read({{"container-image", "./tool.sqsh"}}).request.image, "/where/./tool.sqsh");
    EXPECT_EQ(read({{"container-image", "/tool.sqsh"}}).request.image, "/tool.sqsh");
}

TEST_F(Submissions, ImagesCannotBeOptions) {
    for (const auto* wrong : {"", "-x", "--dry-run"}) {
        EXPECT_THAT(error({{"container-image", wrong}}), HasSubstr("is not the name of an image")) << wrong;
    }
    EXPECT_THAT(error({{"container-image", "me@--dry-run"}}), HasSubstr("is not the name of an image"));
}

TEST_F(Submissions, EntrypointIsOffByDefault) {
    EXPECT_THAT(read({image}).request.options, ElementsAre("--entrypoint", ""));
    EXPECT_THAT(read({image, {"container-entrypoint", ""}}).request.options, IsEmpty());
    EXPECT_THAT(read({image, {"no-container-entrypoint", ""}}).request.options,
                ElementsAre("--entrypoint", ""));
}

TEST_F(Submissions, MountsAreAListWithFlags) {
    EXPECT_THAT(read({image,
                      {"container-entrypoint", ""},
                      {"container-mounts", "/a:/b:ro+rprivate,./c:/d"},
                      {"container-mounts", "/e"}})
                    .request.options,
                ElementsAre("--mount=type=bind,source=/a,destination=/b,readonly",
                            "--mount=type=bind,source=/where/./c,destination=/d",
                            "--mount=type=bind,source=/e,destination=/e"));
    EXPECT_THAT(
        read({image, {"container-entrypoint", ""}, {"container-mounts", "/lr=0.1,batch=32:/m,/a\\:b:/c=d"}})
            .request.options,
        ElementsAre("--mount=type=bind,\"source=/lr=0.1,batch=32\",destination=/m",
                    "--mount=type=bind,source=/a:b,destination=/c=d"));
    for (const auto* wrong :
         {"", ",", "a:/b", "/a:b", "/a:", ":/b", "/a:/b:ro:rw", "/a:/b:x", "/a:/b,", "/a:/b,x:/c"}) {
        EXPECT_THAT(error({image, {"container-mounts", wrong}}), HasSubstr("--container-mounts: ")) << wrong;
    }
}

TEST_F(Submissions, HomeIsTheDirectoryOfTheVariable) {
    EXPECT_THAT(read({image, {"container-entrypoint", ""}, {"container-mount-home", ""}}).request.options,
                ElementsAre("--mount=type=bind,source=/home/me,destination=/home/me"));
    environment.clear();
    EXPECT_THAT(error({image, {"container-mount-home", ""}}), HasSubstr("HOME"));
}

TEST_F(Submissions, OptionsWinOverTheKeysOfADefinition) {
    const auto submission = read({{"environment", "site"},
                                  {"container-image", "host#a\"b\\$c"},
                                  {"container-entrypoint", ""},
                                  {"container-writable", ""}});
    EXPECT_EQ(submission.environment, "site");
    EXPECT_EQ(submission.changes, "image = \"host/a\\\"b\\\\$$c\"\nentrypoint = true\nwritable = true\n");
    EXPECT_EQ(submission.request.image, "");
    EXPECT_THAT(submission.request.options, IsEmpty());
    EXPECT_THAT(
        read({{"edf", "x"}, {"container-readonly", ""}, {"no-container-entrypoint", ""}}).request.options,
        ElementsAre("--entrypoint", "", "--read-only"));
    EXPECT_THAT(error({{"edf", "x"}, {"environment", "y"}}), HasSubstr("name different files"));
}

TEST_F(Submissions, OptionsOfTheCommandLineReplaceThoseOfTheVariables) {
    environment["SARUS_CONTAINER_IMAGE"] = "variable";
    environment["SARUS_CONTAINER_WORKDIR"] = "/variable";
    EXPECT_EQ(read({}).request.image, "variable");
    EXPECT_EQ(read({image}).request.image, "tool");
    EXPECT_THAT(read({{"container-workdir", "/option"}}).request.options,
                testing::Contains("--workdir=/option"));
    EXPECT_FALSE(readOptions({}, false, caller())) << "sbatch and salloc";
}

TEST_F(Submissions, VariablesOfFlagsAreBooleans) {
    environment["SARUS_CONTAINER_READONLY"] = "1";
    environment["SARUS_CONTAINER_MOUNT_HOME"] = "0";
    environment["SARUS_CONTAINER_MPI"] = "yes";
    EXPECT_THAT(read({image, {"container-entrypoint", ""}}).request.options,
                ElementsAre("--read-only", "--mpi"));
    environment["SARUS_CONTAINER_READONLY"] = "off";
    environment["SARUS_CONTAINER_MPI"] = "mpich3";
    EXPECT_THAT(read({image, {"container-entrypoint", ""}}).request.options,
                ElementsAre("--mpi-type=mpich3"));
    environment["SARUS_CONTAINER_MPI"] = "no";
    EXPECT_THAT(read({image, {"container-entrypoint", ""}}).request.options, IsEmpty());
    EXPECT_THAT(read({image, {"container-entrypoint", ""}, {"container-mpi", "libfabric"}}).request.options,
                ElementsAre("--mpi-type=libfabric"));
    environment["SARUS_CONTAINER_READONLY"] = "maybe";
    EXPECT_THAT(error({image}),
                testing::StartsWith("SARUS_CONTAINER_READONLY: expected 1 or 0, found 'maybe'"));
}

TEST_F(Submissions, VariablesAloneThatNameNoContainerChangeNothing) {
    environment["SARUS_CONTAINER_WORKDIR"] = "/variable";
    environment["SARUS_CONTAINER_IMAGE"] = "";
    EXPECT_FALSE(readOptions({}, true, caller()));
    EXPECT_THAT(error({{"container-workdir", "/x"}}), HasSubstr("needs a container"));
}

TEST_F(Submissions, VariablesOfPyxisComeBehindThoseOfSarus) {
    environment["PYXIS_CONTAINER_IMAGE"] = "peer";
    environment["PYXIS_CONTAINER_READONLY"] = "1";
    environment["PYXIS_CONTAINER_ENTRYPOINT"] = "true";
    environment["PYXIS_CONTAINER_REMAP_ROOT"] = "0";
    environment["PYXIS_CONTAINER_NEWER"] = "";
    environment["PYXIS_CONTAINER_ENTRYPOINT_LOG"] = "no";
    EXPECT_EQ(read({}).request.image, "peer");
    EXPECT_THAT(read({}).request.options, ElementsAre("--read-only"));
    EXPECT_THAT(read({{"container-writable", ""}}).request.options, IsEmpty());
    EXPECT_THAT(read({{"no-container-entrypoint", ""}}).request.options,
                ElementsAre("--entrypoint", "", "--read-only"));
    EXPECT_FALSE(readOptions({}, false, caller())) << "sbatch and salloc";
    environment["SARUS_CONTAINER_IMAGE"] = "own";
    EXPECT_EQ(read({}).request.image, "own");
    EXPECT_EQ(read({image}).request.image, "tool");
}

TEST_F(Submissions, VariablesOfPyxisThatCannotBeHonouredAreErrorsOfAStepWithAContainer) {
    for (const auto& [name, value, message] : std::vector<std::array<const char*, 3>>{
             {"PYXIS_CONTAINER_NEWER", "net", "PYXIS_CONTAINER_NEWER is not supported"},
             {"PYXIS_CONTAINER_REMAP_ROOT", "maybe",
              "PYXIS_CONTAINER_REMAP_ROOT: expected 1 or 0, found 'maybe'"},
             {"PYXIS_CONTAINER_SAVE", "/tmp/", "PYXIS_CONTAINER_SAVE: /tmp/ is a directory"},
             {"PYXIS_CONTAINER_READONLY", "maybe",
              "PYXIS_CONTAINER_READONLY: expected 1 or 0, found 'maybe'"},
             {"PYXIS_CONTAINER_NAME", "n:x", "PYXIS_CONTAINER_NAME: ':x' is not known"},
             {"PYXIS_CONTAINER_MOUNTS", "x", "PYXIS_CONTAINER_MOUNTS: the source 'x' must begin"}}) {
        environment = {{"HOME", "/home/me"}, {name, value}};
        EXPECT_THAT(error({image}), testing::StartsWith(message)) << name;
    }
    environment = {{"PYXIS_CONTAINER_NEWER", "net"}, {"PYXIS_CONTAINER_REMAP_ROOT", "1"}};
    EXPECT_FALSE(readOptions({}, true, caller())) << "no container";
}

TEST_F(Submissions, AFileForTheContainerIsBelowTheDirectoryOfTheSubmission) {
    EXPECT_EQ(read({image, {"container-save", "x.sqsh"}}).request.save,
              cat(caller().workingDirectory, "/x.sqsh"));
    EXPECT_EQ(read({image, {"container-save", "/not/here/x.sqsh"}}).request.save, "/not/here/x.sqsh");
    EXPECT_THAT(error({image, {"container-save", ""}}), testing::HasSubstr("is a directory"));
    EXPECT_THAT(error({image, {"container-name", "n:exec"}, {"container-save", "x"}}),
                testing::HasSubstr("':exec'"));
}

TEST_F(Submissions, NamesAreThoseOfTheEngine) {
    EXPECT_EQ(read({{"container-name", "a-b_c.1"}}).request.name, "a-b_c.1");
    for (const auto& [text, use] : nameUses) {
        const auto request = read({{"container-name", cat("n:", text)}}).request;
        EXPECT_EQ(request.name, "n");
        EXPECT_EQ(request.nameUse, use) << text;
    }
    EXPECT_EQ(read({{"container-name", "n"}}).request.nameUse, NameUse::automatic);
    for (const auto* wrong : {"n:", "n:x", "n:exec:create", ":exec"}) {
        EXPECT_THAT(error({{"container-name", wrong}}), HasSubstr("--container-name: ")) << wrong;
    }
    for (const auto* wrong : {"", "-a", "a/b", "a b", "a\n"}) {
        EXPECT_THAT(error({{"container-name", wrong}}), HasSubstr("--container-name: ")) << wrong;
    }
}

TEST_F(Submissions, EveryOptionHasAVariableOfItsOwnName) {
    EXPECT_EQ(variableOf("no-container-mount-home"), "SARUS_NO_CONTAINER_MOUNT_HOME");
    for (const auto& option : options) {
        EXPECT_LE(std::string(option.name).size(), 75U) << "SPANK_OPTION_MAXLEN";
        EXPECT_THAT(option.help, testing::StartsWith("[sarus] "));
    }
}

}  // namespace
}  // namespace sarus::spank::submission_test
