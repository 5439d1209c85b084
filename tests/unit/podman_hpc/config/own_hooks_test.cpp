#include "podman_hpc/config/own_hooks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "podman_hpc/surroundings.hpp"

namespace sarus::podman_hpc::own_hooks_test {
namespace {

using testing::ElementsAre;

class OwnHooks : public testing::Test {
protected:
    OwnHooks() {
        createDirectories(hooks);
        createDirectories(modules);
        auto from = test::surroundings({{"PODMANHPC_HOOKS_DIR", hooks},
                                        {"PODMANHPC_MODULES_DIR", modules},
                                        {"PODMANHPC_CONFIG_HOME", directory / "config"}});
        from.uid = ::geteuid();
        settings = loadSettings(from);
    }
    std::string provide(const std::string& command = "run") const {
        return provideOwnHooks(settings, command, ::geteuid());
    }
    static std::vector<std::string> environmentIn(const std::string& file) {
        return nlohmann::json::parse(readFile(file)).at("hook").at("env");
    }
    void addHook(const std::string& more = "") const {
        replaceFile(hooks + "/02-hook_tool.json",
                    R"({"version":"1.0.0","hook":{"path":"/p")" + more +
                        R"(},"when":{"annotations":{"podman_hpc.hook_tool":"true"}},"stages":["prestart"]})",
                    0644);
    }
    sarus::test::TemporaryDirectory directory;
    const std::string hooks = directory / "hooks.d";
    const std::string modules = directory / "modules.d";
    Settings settings;
};

TEST_F(OwnHooks, NameTheCallAndTheModulesInTheFilesOfTheHookOnly) {
    EXPECT_EQ(provide(), "");
    replaceFile(hooks + "/01-other.json", R"({"version":"1.0.0","hook":{"path":"/p"}})", 0644);
    EXPECT_EQ(provide(), "");
    addHook(R"(,"env":["SITE=1","PODMANHPC_MODULES_DIR=/old"])");
    const auto own = provide();
    EXPECT_FALSE(pathExists(own + "/01-other.json"));
    EXPECT_THAT(environmentIn(own + "/02-hook_tool.json"),
                ElementsAre("PODMANHPC_CALL=run", "PODMANHPC_MODULES_DIR=" + modules,
                            "HOOK_TRUST_CONTAINER=true", "SITE=1"));
    EXPECT_EQ(provide(), own);
    addHook();
    EXPECT_NE(provide(), own) << "containers that start now may use the other one";
}

TEST_F(OwnHooks, DoNotTrustTheAnnotationsOfABuild) {
    addHook(R"(,"env":[])");
    EXPECT_THAT(environmentIn(provide("build") + "/02-hook_tool.json"),
                ElementsAre("PODMANHPC_CALL=build", "PODMANHPC_MODULES_DIR=" + modules));
}

TEST_F(OwnHooks, RefuseModulesThatOthersCanChange) {
    addHook();
    replaceFile(modules + "/m.yaml", "name: m\n", 0644);
    provide();
    for (const auto& path : {modules, modules + "/m.yaml", directory / "."}) {
        ASSERT_EQ(::chmod(path.c_str(), 0777), 0) << path;
        EXPECT_THROW(provide(), Error) << path;
        ASSERT_EQ(::chmod(path.c_str(), 0755), 0) << path;
    }
    provide();
}

}  // namespace
}  // namespace sarus::podman_hpc::own_hooks_test
