#include "podman_hpc/modules/module.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "podman_hpc/surroundings.hpp"

namespace sarus::podman_hpc::module_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string problemOf(const std::string& text) {
    try {
        parseModule(text, "m.yaml");
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(SiteModule, WholeSchema) {
    const auto module = parseModule(
        "name: mpich\ncli_arg: MPI-x\nhelp: MPI\nhidden: true\nenv: ENABLE_MPI\n"
        "additional_args: [-e SLURM_*, --ipc=host]\nshared_run: true\nconflicts: [a]\ndepends_on: [b]\n"
        "copy: ['/a:/b']\nbind: null\nannotation: ignored\n",
        "m.yaml");
    EXPECT_EQ(module.name, "mpich");
    EXPECT_EQ(module.flag, "MPI-x");
    EXPECT_EQ(module.help, "MPI");
    EXPECT_TRUE(module.hidden);
    EXPECT_EQ(module.variable, "ENABLE_MPI");
    EXPECT_THAT(module.podmanArguments, ElementsAre("-e SLURM_*", "--ipc=host"));
    EXPECT_TRUE(module.sharedRun);
    EXPECT_THAT(module.conflicts, ElementsAre("a"));
    EXPECT_THAT(module.dependencies, ElementsAre("b"));
    EXPECT_THAT(module.copyRules, ElementsAre("/a:/b"));
    EXPECT_THAT(module.bindRules, IsEmpty());
}

TEST(SiteModule, NameIsEnough) {
    EXPECT_EQ(problemOf("name: x\n"), "");
    EXPECT_EQ(problemOf("cli_arg: x\nenv: X\n"), "m.yaml:1: the key 'name' is missing");
}

TEST(SiteModule, WrongTypesNameFileLineAndKey) {
    EXPECT_EQ(problemOf("name: x\nbind: /a:/b\n"), "m.yaml:2: bind must be a list, found text");
    EXPECT_EQ(problemOf("name: x\nhidden: [1]\n"), "m.yaml:2: hidden must be true or false, found a list");
    EXPECT_EQ(problemOf("name: {}\n"), "m.yaml:1: name must be text, found a map");
    EXPECT_THAT(problemOf("name: x\ncli_arg: a b\nenv: X\n"), HasSubstr("m.yaml:2: cli_arg: "));
    EXPECT_THAT(problemOf("name: x\ncli_arg: a\nenv: A-B\n"), HasSubstr("m.yaml:3: env: "));
    EXPECT_THAT(problemOf("name: x\ncli_arg: a\n"),
                HasSubstr("m.yaml:2: a module with 'cli_arg' needs 'env'"));
}

class SiteModules : public testing::Test {
protected:
    void add(const std::string& file, const std::string& text) { replaceFile(directory / file, text, 0644); }
    std::vector<Module> load() {
        return loadModules(directory.path(), [&](const std::string& text) { warnings.push_back(text); });
    }
    std::vector<std::string> arguments(const std::set<std::string>& flags,
                                       const std::map<std::string, std::string>& variables = {}) {
        return moduleArguments(load(), flags, test::surroundings(variables), words);
    }
    std::vector<std::string> words;
    std::vector<std::string> problems(const std::string& text) {
        add("m.yaml", text);
        std::vector<std::string> out;
        for (const auto& problem : checkModule(directory / "m.yaml", {"rm"}).problems) {
            out.push_back((problem.isError ? "E " : "W ") +
                          problem.message.substr(directory.path().size() + 1));
        }
        return out;
    }
    sarus::test::TemporaryDirectory directory;
    std::vector<std::string> warnings;
};

TEST_F(SiteModules, ArgumentsComeInTheOrderOfTheFilesAndBeforeTheVariable) {
    add("b.yaml", "name: b\ncli_arg: b\nenv: B\nadditional_args: [-e X_*, --ipc=host]\n");
    add("a.yaml", "name: z\ncli_arg: z\nenv: Z\n");
    add("c.yaml", "name: c\ncli_arg: c\nenv: C\n");
    EXPECT_THAT(arguments({"b", "z"}), ElementsAre("-e", "Z=1", "-e X_*", "--ipc=host", "-e", "B=1",
                                                   "--annotation", "podman_hpc.variables="));
    EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(SiteModules, ABrokenModuleIsDisabledWithAWarning) {
    add("a.yaml", "name: [\n");
    add("b.yaml", "name: b\ncli_arg: b\nenv: B\n");
    add("c.txt", "name: c\n");
    EXPECT_EQ(load().size(), 1U);
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_THAT(warnings[0], HasSubstr("a.yaml:2: not valid YAML"));
    EXPECT_THAT(loadModules("/nonexistent", {}), IsEmpty());
}

TEST_F(SiteModules, OfTwoWithTheSameNameTheLastCounts) {
    add("a.yaml", "name: m\ncli_arg: m\nenv: A\n");
    add("b.yaml", "name: m\ncli_arg: m\nenv: B\n");
    EXPECT_THAT(arguments({"m"}), ElementsAre("-e", "B=1", "--annotation", "podman_hpc.variables="));
    EXPECT_EQ(warnings.size(), 1U);
}

TEST_F(SiteModules, ConflictsAndDependenciesWarn) {
    add("a.yaml", "name: mpich\ncli_arg: mpi\nenv: A\nconflicts: [cuda-mpi]\n");
    add("b.yaml", "name: cuda-mpi\ncli_arg: cuda\nenv: B\n");
    add("c.yaml", "name: x\ncli_arg: x\nenv: C\ndepends_on: [cuda-mpi]\n");
    EXPECT_THAT(selectionWarnings(load(), {"mpi"}), IsEmpty());
    EXPECT_THAT(selectionWarnings(load(), {"mpi", "cuda", "x"}),
                ElementsAre("Module 'mpich' (--mpi) conflicts with 'cuda-mpi' (--cuda). "
                            "These modules cannot be used together."));
    EXPECT_THAT(selectionWarnings(load(), {"x"}),
                ElementsAre("Module 'x' (--x) requires 'cuda-mpi' to be enabled. "
                            "Please add --cuda to your command."));
}

TEST_F(SiteModules, VariablesInRulesReachTheHook) {
    add("a.yaml",
        "name: a\ncli_arg: a\nenv: A\nbind: ['$SCRATCH:${SCRATCH}', '~/x:/x', '$UNSET:/y', 'a$:/z']\n");
    EXPECT_THAT(arguments({"a"}, {{"SCRATCH", "/s,\"1\""}, {"HOME", "/h"}}),
                ElementsAre("-e", "A=1", "--annotation", "podman_hpc.env.HOME=/h", "--annotation",
                            "\"podman_hpc.env.SCRATCH=/s,\"\"1\"\"\"", "--annotation",
                            "podman_hpc.variables=HOME SCRATCH"));
    // The list is always there: the image may have annotations of these names.
    EXPECT_THAT(arguments({}, {{"SCRATCH", "/s"}}), ElementsAre("--annotation", "podman_hpc.variables="));
}

TEST_F(SiteModules, VariablesReachTheHookOfModulesThatTheCallerEnablesByVariable) {
    add("a.yaml", "name: a\ncli_arg: a\nenv: A\nbind: [$SCRATCH:/s]\n");
    for (const auto& typed : std::vector<std::vector<std::string>>{
             {"-e", "A=0"}, {"-e", "A"}, {"-eA=1"}, {"--env=A=1"}, {"--env", "A=1"}}) {
        words = typed;
        EXPECT_THAT(arguments({}, {{"SCRATCH", "/s"}}),
                    ElementsAre("--annotation", "podman_hpc.env.SCRATCH=/s", "--annotation",
                                "podman_hpc.variables=SCRATCH"));
    }
    words = {"-e", "AB=1", "--name=A"};
    EXPECT_THAT(arguments({}, {{"SCRATCH", "/s"}}), ElementsAre("--annotation", "podman_hpc.variables="));
}

TEST_F(SiteModules, CheckFindsWhatTheParserAccepts) {
    const std::string begin = "name: m\ncli_arg: m\nenv: M\n";
    EXPECT_THAT(problems(begin + "copy: [../a.conf:/etc/a, '/x/lib*:/y/star-*', '/a', '$A:$B', '~:~']\n"),
                IsEmpty());
    EXPECT_THAT(problems("name: m\ncli_arg: rm\nenv: M\n"),
                ElementsAre("W m.yaml:2: cli_arg: hides --rm of 'podman run'"));
    EXPECT_THAT(problems(begin + "conflict: [a]\n"),
                ElementsAre("W m.yaml:4: conflict: unknown key; did you mean 'conflicts'?"));
    EXPECT_THAT(
        problems(begin + "additional_args: ['--ipc host', '-e A', '--env=a b']\n"),
        ElementsAre(
            "E m.yaml:4: additional_args: '--ipc host' is one word for Podman; write --option=value"));
    EXPECT_THAT(problems(begin + "bind: ['/a:b', ':/b', '/a*/*:/b/*', '/a:/b:/c', 'a']\n"),
                ElementsAre(HasSubstr("rule '/a:b': the target is not an absolute path"),
                            HasSubstr("rule ':/b': the source is missing"), HasSubstr("exactly one '*'"),
                            HasSubstr("more than one ':'"), HasSubstr("needs an absolute source")));
    EXPECT_THAT(problems("nme: m\n"), ElementsAre("E m.yaml:1: the key 'name' is missing"));
}

TEST(ShippedModules, AreAllUsable) {
    const auto files = moduleFiles(SARUS_SOURCE_DIR "/etc/podman_hpc/modules.d");
    EXPECT_EQ(files.size(), 11U);
    for (const auto& file : files) {
        EXPECT_THAT(checkModule(file, {}).problems, IsEmpty()) << file;
    }
}

}  // namespace

}  // namespace sarus::podman_hpc::module_test

namespace sarus::podman_hpc {

void PrintTo(const ModuleProblem& problem, std::ostream* out) {
    *out << problem.message;
}

}  // namespace sarus::podman_hpc
