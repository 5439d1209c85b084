#include "podman_hpc/config/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "podman_hpc/surroundings.hpp"

namespace sarus::podman_hpc::settings_test {
namespace {

using Variables = std::map<std::string, std::string>;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The settings from a file with this text.
class PodmanHpcSettings : public testing::Test {
protected:
    Settings load(const std::string& text, Variables variables = {}) {
        replaceFile(file, text, 0644);
        variables["PODMANHPC_CONFIG_FILE"] = file;
        return loadSettings(test::surroundings(variables));
    }
    Error failure(const std::string& text, const Variables& variables = {}) {
        try {
            load(text, variables);
        } catch (const Error& error) {
            return error;
        }
        ADD_FAILURE() << "accepted: " << text;
        return Error("");
    }
    sarus::test::TemporaryDirectory directory;
    const std::string file = directory / "podman_hpc.yaml";
};

TEST_F(PodmanHpcSettings, BuiltInDefaults) {
    const auto settings = loadSettings(test::surroundings());
    EXPECT_EQ(settings.text(Key::graphRoot), "/tmp/1000_hpc/storage");
    EXPECT_EQ(settings.text(Key::runRoot), "/tmp/1000_hpc");
    EXPECT_EQ(settings.text(Key::configHome), "/tmp/1000_hpc/config");
    EXPECT_EQ(settings.text(Key::modulesDir), "/etc/podman_hpc/modules.d");
    EXPECT_EQ(settings.text(Key::hooksDir), "/nonexistent/share/containers/oci/hooks.d");
    EXPECT_THAT(settings.list(Key::sharedRunExecArgs),
                ElementsAre("-e", "SLURM_*", "-e", "PALS_*", "-e", "PMI_*"));
    EXPECT_THAT(settings.list(Key::sharedRunCommand), ElementsAre("sleep", "infinity"));
    EXPECT_THAT(settings.list(Key::additionalStores), IsEmpty());
    EXPECT_EQ(settings.text(Key::localidVar), "SLURM_LOCALID");
    EXPECT_EQ(settings.text(Key::tasksPerNodeVar), "SLURM_STEP_TASKS_PER_NODE");
    EXPECT_EQ(settings.text(Key::ntasksPattern), "[0-9]+");
    EXPECT_EQ(settings.text(Key::mksquashfsBin), "mksquashfs.static");
    EXPECT_EQ(settings.number(Key::waitTimeout), 10);
    EXPECT_EQ(settings.number(Key::waitPollInterval), 0.2);
    EXPECT_TRUE(settings.flag(Key::useDefaultArgs));
}

TEST_F(PodmanHpcSettings, PrecedenceIsBuiltInFileTemplateEnvironmentTemplateFileEnvironment) {
    const std::string fileTemplate = "graph_root_template: /1\n";
    const Variables variableTemplate{{"PODMANHPC_GRAPH_ROOT_TEMPLATE", "/2"}};
    EXPECT_EQ(load(fileTemplate).text(Key::graphRoot), "/1");
    EXPECT_EQ(load(fileTemplate, variableTemplate).text(Key::graphRoot), "/2");
    const auto plain = load(fileTemplate + "graph_root: /3\n", variableTemplate);
    EXPECT_EQ(plain.text(Key::graphRoot), "/3");
    EXPECT_EQ(plain.setting(Key::graphRoot).back().origin.line, 2);
    auto all = variableTemplate;
    all["PODMANHPC_GRAPH_ROOT"] = "/4";
    const auto settings = load(fileTemplate + "graph_root: /3\n", all);
    std::vector<std::string> values;
    for (const auto& value : settings.setting(Key::graphRoot)) {
        values.push_back(value.words.front());
    }
    EXPECT_THAT(values, ElementsAre("/tmp/1000_hpc/storage", "/1", "/2", "/3", "/4"));
    EXPECT_EQ(settings.setting(Key::graphRoot).back().origin.name, "PODMANHPC_GRAPH_ROOT");
}

TEST_F(PodmanHpcSettings, TemplatesKnowUidUserAndEnvironment) {
    const auto settings = load(
        "graph_root_template: /x/{{ uid }}/{{ env.A_B }}\n"
        "additional_stores_template: [\"/s/{{ uid }}\", \"{{ env.A_B }}/s\"]\n"
        "shared_run_args_template: -e {{ env.A_B }}\n",
        {{"A_B", "ab"}});
    EXPECT_EQ(settings.text(Key::graphRoot), "/x/1000/ab");
    EXPECT_THAT(settings.list(Key::additionalStores), ElementsAre("/s/1000", "ab/s"));
    EXPECT_THAT(settings.list(Key::sharedRunExecArgs), ElementsAre("-e", "ab"));
    auto unnamed =
        test::surroundings({{"USER", "somebody"}, {"PODMANHPC_RUN_ROOT_TEMPLATE", "/r/{{ user }}"}});
    unnamed.uid = 4'000'000'001;  // whom no database knows
    EXPECT_EQ(loadSettings(unnamed).text(Key::runRoot), "/r/somebody");
}

TEST_F(PodmanHpcSettings, ATemplateWithAnUnsetVariableIsAnError) {
    const auto error = failure("\ngraph_root_template: /x/{{ env.NONE }}\n");
    EXPECT_STREQ(error.what(), "'NONE'");
    EXPECT_EQ(error.hint(), cat(file, ":2: graph_root_template: The environment has no variable NONE"));
    EXPECT_THAT(failure("run_root_template: '{{ home }}'\n").what(), HasSubstr("Unknown placeholder 'home'"));
}

TEST_F(PodmanHpcSettings, ListsAndBooleansFromTheEnvironment) {
    EXPECT_THAT(load("", {{"PODMANHPC_ADDITIONAL_STORES", "/a, /b"}}).list(Key::additionalStores),
                ElementsAre("/a", " /b"));
    EXPECT_THAT(
        load("additional_stores: [/a]", {{"PODMANHPC_ADDITIONAL_STORES", ""}}).list(Key::additionalStores),
        IsEmpty());
    for (const auto* word : {"True", "true", "1", "yes", "on"}) {
        EXPECT_TRUE(load("", {{"PODMANHPC_USE_DEFAULT_ARGS", word}}).flag(Key::useDefaultArgs)) << word;
    }
    for (const auto* word : {"False", "false", "0", "NO", "off"}) {
        EXPECT_FALSE(load("", {{"PODMANHPC_USE_DEFAULT_ARGS", word}}).flag(Key::useDefaultArgs)) << word;
    }
    EXPECT_STREQ(failure("", {{"PODMANHPC_USE_DEFAULT_ARGS", "maybe"}}).what(),
                 "PODMANHPC_USE_DEFAULT_ARGS must be true or false, found 'maybe'");
    EXPECT_EQ(load("", {{"PODMANHPC_WAIT_TIMEOUT", "2.5"}}).number(Key::waitTimeout), 2.5);
}

TEST_F(PodmanHpcSettings, ListsFromTheFile) {
    const auto settings = load("additional_stores:\n  - /a\n  - /b\nshared_run_exec_args: -e X -e Y\n");
    EXPECT_THAT(settings.list(Key::additionalStores), ElementsAre("/a", "/b"));
    EXPECT_THAT(settings.list(Key::sharedRunExecArgs), ElementsAre("-e", "X", "-e", "Y"));
}

TEST_F(PodmanHpcSettings, AnUnknownKeyIsNamedWithFileAndLine) {
    const auto error = failure("run_root: /r\ngraph_rot: /x\n");
    EXPECT_STREQ(error.what(), "Unrecongnized Option: graph_rot");
    EXPECT_EQ(error.hint(), cat(file, ":2: the key 'graph_rot' is unknown; did you mean 'graph_root'?"));
    failure("squash_dir: /x\n");
    failure("podman_bin_template: /x\n");
}

TEST_F(PodmanHpcSettings, AWrongTypeIsNamedWithFileLineAndKey) {
    EXPECT_EQ(failure("\n\ngraph_root: [a]\n").what(),
              cat(file, ":3: graph_root must be text, found a list"));
    EXPECT_EQ(failure("graph_root: 5\n").what(), cat(file, ":1: graph_root must be text, found a number"));
    EXPECT_EQ(failure("wait_timeout: soon\n").what(),
              cat(file, ":1: wait_timeout must be a number of seconds, found text"));
    EXPECT_EQ(failure("use_default_args: 7\n").what(),
              cat(file, ":1: use_default_args must be true or false, found a number"));
    EXPECT_EQ(failure("additional_stores: {a: b}\n").what(),
              cat(file, ":1: additional_stores must be a list, found a map"));
    EXPECT_EQ(failure("- a\n").what(), cat(file, ":1: expected keys with values, found a list"));
    EXPECT_THAT(failure("a: 'b\n").what(), HasSubstr(":2: not valid YAML: "));
    EXPECT_THAT(failure("run_root: /a\nrun_root: /b\n").what(),
                HasSubstr(":2: the key 'run_root' is there twice"));
}

TEST_F(PodmanHpcSettings, AnEmptyOrMissingFileIsFine) {
    EXPECT_EQ(load("").text(Key::runRoot), "/tmp/1000_hpc");
    EXPECT_EQ(load("# nothing\n").text(Key::runRoot), "/tmp/1000_hpc");
}

TEST_F(PodmanHpcSettings, AliasesMultiplyWithinLimits) {
    EXPECT_THAT(failure("a: &a [*a]\n").what(), HasSubstr("nested too deeply"));
    std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
    for (int i = 1; i < 9; ++i) {
        bomb += cat("a", i, ": &a", i, " [*a", i - 1, ",*a", i - 1, ",*a", i - 1, ",*a", i - 1, ",*a", i - 1,
                    "]\n");
    }
    EXPECT_THAT(failure(bomb).what(), HasSubstr("nested too deeply"));
}

TEST_F(PodmanHpcSettings, SquashDirectory) {
    const Variables scratch{{"SCRATCH", "/scratch"}, {"SQUASH_DIR", "/squash"}};
    EXPECT_EQ(squashDirectory(test::surroundings(scratch), "/option"), "/option");
    EXPECT_EQ(squashDirectory(test::surroundings(scratch), {}), "/squash");
    EXPECT_EQ(squashDirectory(test::surroundings({{"SCRATCH", "/scratch"}}), {}), "/scratch/storage");
    EXPECT_EQ(squashDirectory(test::surroundings({{"SCRATCH", ""}}), {}), "/tmp/1000_hpc/squash");
}

}  // namespace
}  // namespace sarus::podman_hpc::settings_test
