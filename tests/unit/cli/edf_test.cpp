#include "cli/edf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::cli::edf_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

std::vector<std::string> texts(const std::vector<EdfText>& values) {
    std::vector<std::string> result;
    for (const auto& value : values) {
        result.push_back(value.text);
    }
    return result;
}

template <typename Work>
std::string failure(Work work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

std::string parseFailure(const std::string& text) {
    return failure([&] { parseEdf(text, "x.toml"); });
}

TEST(EdfFile, CanBeWrittenAgain) {
    const std::string text = R"(image = "a\"b\\c${D}"
workdir = "/w"
entrypoint = true
writable = false
mounts = ["/a:/b", "\u0007\u000A"]
devices = []
[env]
"A B" = "\u007F"
[annotations]
"com.hooks.x" = "ä"
)";
    EXPECT_EQ(tomlText(parseEdf(text, "x.toml")), text);
    EXPECT_EQ(tomlText(parseEdf(tomlText({}), "x.toml")), tomlText({}));
}

TEST(EdfFile, KeysWinOverThoseThatItInherits) {
    const auto both = inheritFrom(parseEdf("image = 'a'\nworkdir = '/a'\n[env]\nA = 'a'\nB = 'a'", "a"),
                                  parseEdf("image = 'b'\n[env]\nB = 'b'", "b"));
    EXPECT_EQ(both.image->text, "b");
    EXPECT_EQ(both.workdir->text, "/a");
    EXPECT_EQ(both.env.at("A").text, "a");
    EXPECT_EQ(both.env.at("B").text, "b");
}

TEST(EdfFile, EveryKeyIsRead) {
    const auto edf = parseEdf(R"(
image = "registry/app:1"
base_environment = ["a", "b"]
mounts = ["/a:/b:ro"]
devices = ["/dev/fuse", "v.com/gpu=all"]
workdir = "/w"
entrypoint = true
writable = false
[env]
A = "1"
B = ""
[annotations]
com.hooks.x.enabled = true
"com.flat" = "y"
[annotations.com.number]
n = 5
f = 1.0
g = 0.1
)",
                              "x.toml");
    ASSERT_TRUE(edf.image);
    EXPECT_EQ(edf.image->text, "registry/app:1");
    EXPECT_EQ(edf.image->where, "x.toml:2: image");
    EXPECT_THAT(texts(edf.bases), ElementsAre("a", "b"));
    EXPECT_THAT(texts(edf.mounts), ElementsAre("/a:/b:ro"));
    EXPECT_EQ(edf.mounts[0].where, "x.toml:4: mounts[0]");
    EXPECT_THAT(texts(edf.devices), ElementsAre("/dev/fuse", "v.com/gpu=all"));
    EXPECT_EQ(edf.workdir->text, "/w");
    EXPECT_EQ(edf.entrypoint, true);
    EXPECT_EQ(edf.writable, false);
    EXPECT_EQ(edf.env.at("A").text, "1");
    EXPECT_EQ(edf.env.at("B").where, "x.toml:11: env.B");
    EXPECT_EQ(edf.annotations.at("com.hooks.x.enabled").text, "true");
    EXPECT_EQ(edf.annotations.at("com.flat").text, "y");
    EXPECT_EQ(edf.annotations.at("com.number.n").text, "5");
    EXPECT_EQ(edf.annotations.at("com.number.f").text, "1.0");
    EXPECT_EQ(edf.annotations.at("com.number.g").text, "0.1");
    EXPECT_THAT(edf.warnings, IsEmpty());
    EXPECT_THAT(texts(parseEdf("base_environment = 'x'", "x.toml").bases), ElementsAre("x"));
}

TEST(EdfFile, UnknownKeysAreIgnoredWithAWarning) {
    EXPECT_THAT(parseEdf("mount = []\n", "x.toml").warnings,
                ElementsAre("x.toml:1: mount: unknown key, ignored (did you mean 'mounts'?)"));
}

TEST(EdfFile, AViolationIsOneLineWithFileLineAndKey) {
    EXPECT_THAT(parseFailure("a = 1\nimage = \n"), HasSubstr("x.toml:2: not valid TOML: "));
    EXPECT_EQ(parseFailure("\n[\x0Env]\n"), "x.toml:2: not valid TOML: it contains a control character");
    EXPECT_THAT(parseFailure("\ne \u00F4i"), HasSubstr("x.toml:2: not valid TOML: "));
    EXPECT_EQ(parseFailure("# \u00F4\nimage = \"\u00F4\"\nworkdir = '''\u00F4\n'\u00F4'''"), "no error");
    EXPECT_THAT(parseFailure("a = 1\ndevices = [0\"/dev\u0299\"]"), HasSubstr("x.toml:2: not valid TOML: "));
    EXPECT_THAT(parseFailure("a = 1\nmounts = 0[\"\u0299"), HasSubstr("x.toml:2: not valid TOML: "));
    EXPECT_EQ(parseFailure("[annotations]\n\"\u00F4\" = ''\n\"\u00F5\" = ''"), "no error");
    EXPECT_EQ(parseFailure("image = 'a' # \"\nworkdir = \"\"\"b\"\"\"\"\nmounts = [ "
                           "'a:/b',\n\"c:/d\"]\n[\"annotations\".'x']\n\"k\" = ''"),
              "no error");
    EXPECT_EQ(parseFailure("image = 1"), "x.toml:1: image: expected a string, found an integer");
    EXPECT_EQ(parseFailure("mounts = '/a:/b'"),
              "x.toml:1: mounts: expected a list of strings, found a string");
    EXPECT_EQ(parseFailure("devices = [\n'a',\n1]"),
              "x.toml:3: devices[1]: expected a string, found an integer");
    EXPECT_EQ(parseFailure("entrypoint = 'true'"),
              "x.toml:1: entrypoint: expected true or false (without quotes), found a string");
    EXPECT_EQ(parseFailure("[env]\nA = 8"), "x.toml:2: env.A: expected a string, found an integer");
    EXPECT_EQ(parseFailure("env = 'A'"), "x.toml:1: env: expected a table of strings, found a string");
    EXPECT_EQ(parseFailure("[env]\n'A=B' = 'x'"),
              "x.toml:2: env.A=B: 'A=B' cannot be the name of an environment variable");
    EXPECT_EQ(parseFailure("annotations = 1"),
              "x.toml:1: annotations: expected a table of strings, found an integer");
    EXPECT_EQ(parseFailure("[annotations]\na = []"),
              "x.toml:2: annotations.a: expected a string, a number or a boolean, found a list");
    EXPECT_EQ(parseFailure("[annotations]\n'a.b' = 1\na.b = 2"),
              "x.toml:2: annotations.a.b: this annotation is given twice");
    EXPECT_EQ(parseFailure("image = \"a\\u0000\""), "x.toml:1: image: the value holds a NUL character");
    EXPECT_THAT(parseFailure("image = 'a'\nimage = 'b'"), HasSubstr("x.toml:2: not valid TOML"));
}

TEST(EdfFile, SizeAndDepthAreBounded) {
    EXPECT_EQ(parseFailure(std::string(100000, '\n')), "x.toml: the file is larger than 64.00KB");
    std::string key = "a";
    for (int i = 0; i < 2000; ++i) {
        key += ".a";
    }
    EXPECT_EQ(parseFailure("\n" + key + " = 1"), "x.toml:2: the line has more than 1000 dots");
    EXPECT_THAT(parseFailure("a = " + std::string(5000, '[')), HasSubstr("not valid TOML"));
}

struct Expansion : testing::Test {
    std::map<std::string, std::string> variables{{"A", "x y"}, {"EMPTY", ""}, {"DOLLAR", "$A ${A} `id`"}};

    VariableLookup lookup = [this](const std::string& name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    };

    std::string expand(std::string_view text) const { return expandVariables(text, lookup, "f:1: k"); }
    std::string error(std::string_view text) const {
        return failure([&] { expand(text); });
    }
};

TEST_F(Expansion, TheDocumentedForms) {
    EXPECT_EQ(expand("$A/${A}b$$A"), "x y/x yb$A");
    EXPECT_EQ(expand("${NO:-d}${NO:-}${EMPTY:-e}${A:-f}[$EMPTY]"), "dex y[]");
    EXPECT_EQ(expand("${NO:-${NO2:-$A}}}"), "x y}");
    EXPECT_EQ(expand("no ~ * `id` $$(id)"), "no ~ * `id` $(id)");
}

TEST_F(Expansion, WhatAVariableHoldsIsNotInterpreted) {
    EXPECT_EQ(expand("$DOLLAR"), "$A ${A} `id`");
}

TEST_F(Expansion, EverythingElseIsAnError) {
    EXPECT_EQ(error("$NO"), "f:1: k: the variable 'NO' is not defined");
    EXPECT_EQ(error("${NO}"), "f:1: k: the variable 'NO' is not defined");
    EXPECT_EQ(error("${A"), "f:1: k: the '}' for a '${' is missing");
    for (const auto* text : {"${A:1}", "${A^^}", "${}", "${A-x}", "${!A}", "${1}"}) {
        EXPECT_EQ(error(text), "f:1: k: only ${NAME} and ${NAME:-DEFAULT} are supported") << text;
    }
    for (const auto* text : {"$(id)", "$", "a $ b", "$1"}) {
        EXPECT_EQ(error(text), "f:1: k: the name of a variable is missing after '$'") << text;
    }
    std::string deep;
    for (int i = 0; i < 100; ++i) {
        deep = "${NO:-" + deep + "}";
    }
    EXPECT_EQ(error(deep), "f:1: k: the defaults of variables are nested too deeply");
    variables["LONG"] = std::string(600000, 'x');
    EXPECT_EQ(error("$LONG$LONG"), "f:1: k: the value becomes too long");
}

struct Edf : Expansion {
    std::string directory;
    engine::LaunchRequest request;

    Edf() {
        std::string name = "/tmp/sarus-edf-XXXXXX";
        directory = ::mkdtemp(name.data());
    }
    ~Edf() override { removeTree(directory); }

    void write(const std::string& name, std::string_view text) const {
        createDirectories(
            cat(directory, "/", name.substr(0, name.rfind('/') == std::string::npos ? 0 : name.rfind('/'))));
        replaceFile(cat(directory, "/", name, ".toml"), text, 0644);
    }

    EdfFile load(const std::string& reference) const {
        return loadEdf(reference, {"/nonexistent", directory}, lookup);
    }
    std::string loadError(const std::string& reference) const {
        return failure([&] { load(reference); });
    }

    std::vector<std::string> mounts() const {
        std::vector<std::string> all;
        std::transform(request.mounts.begin(), request.mounts.end(), std::back_inserter(all), oci::toText);
        return all;
    }
    void apply(const std::string& text) { applyEdf(parseEdf(text, "x.toml"), lookup, "/cwd", request); }
    std::string applyError(const std::string& text) {
        return failure([&] { apply(text); });
    }
};

TEST_F(Edf, TheSearchPathIsTheUsersThenTheSites) {
    EXPECT_THAT(edfSearchPath(lookup, {"/etc/edf"}), ElementsAre("/etc/edf"));
    variables["HOME"] = "/home/u";
    EXPECT_THAT(edfSearchPath(lookup, {"/etc/edf"}), ElementsAre("/home/u/.edf", "/etc/edf"));
    variables["EDF_PATH"] = "/a::/b";
    EXPECT_THAT(edfSearchPath(lookup, {"/etc/edf"}), ElementsAre("/a", "/b", "/etc/edf"));
    variables["EDF_PATH"] = "a";
    EXPECT_EQ(failure([&] { edfSearchPath(lookup, {}); }), "EDF_PATH: expected absolute paths, found 'a'");
}

TEST_F(Edf, NamesAndPaths) {
    write("one", "image = 'i'");
    write("group/two", "image = 'j'");
    EXPECT_EQ(load("one").image->text, "i");
    EXPECT_EQ(load("group/two").image->text, "j");
    EXPECT_EQ(load(cat(directory, "/one.toml")).image->text, "i");
    EXPECT_EQ(loadError("three"), "the environment definition 'three' was not found");
    EXPECT_THAT(loadError("one.toml"), HasSubstr("failed to read the environment definition file"));
    EXPECT_EQ(loadError("./one"), "the environment definition file './one' does not end in .toml");
    EXPECT_EQ(loadError(""), "the name of an environment definition is empty");
}

TEST_F(Edf, BasesComeFirstAndTheLastScalarWins) {
    write("a",
          "image='a'\nworkdir='/a'\nmounts=['/m1:/m1','/m2:/m2']\ndevices=['/dev/"
          "x']\nentrypoint=true\n[env]\nA='a'\nB='a'\n"
          "[annotations]\nk.a='a'");
    write("b",
          "base_environment='a'\nimage='b'\nmounts=['/m2:/m2','/m3:/"
          "m3']\n[env]\nB='b'\n[annotations]\nk.b='b'");
    write("c", "base_environment=['a','${NAME}']\nwritable=false\n[env]\nC='c'");
    variables["NAME"] = "b";
    const auto edf = load("c");
    EXPECT_EQ(edf.image->text, "b");
    EXPECT_EQ(edf.workdir->text, "/a");
    EXPECT_EQ(edf.entrypoint, true);
    EXPECT_EQ(edf.writable, false);
    EXPECT_THAT(texts(edf.mounts), ElementsAre("/m1:/m1", "/m2:/m2", "/m3:/m3"));
    EXPECT_THAT(texts(edf.devices), ElementsAre("/dev/x"));
    EXPECT_EQ(edf.env.at("B").text, "b");
    EXPECT_EQ(edf.env.at("B").where, cat(directory, "/b.toml:5: env.B"));
    EXPECT_EQ(edf.env.size(), 3U);
    EXPECT_EQ(edf.annotations.size(), 2U);
}

TEST_F(Edf, InheritanceIsBounded) {
    write("a", "base_environment='b'");
    write("b", "base_environment='a'");
    EXPECT_THAT(loadError("a"), HasSubstr("inherits from itself"));
    for (int i = 0; i < 12; ++i) {
        write(cat("n", i), cat("base_environment='n", i + 1, "'"));
    }
    EXPECT_THAT(loadError("n0"), HasSubstr("inherit from more than 10 levels"));
    write("leaf", "image='x'");
    std::string bases;
    for (int i = 0; i < 200; ++i) {
        bases += "'leaf',";
    }
    write("wide", cat("base_environment=[", bases, "]"));
    EXPECT_THAT(loadError("wide"), HasSubstr("100 files"));
    write("lost", "image='x'\nbase_environment='nowhere'");
    EXPECT_EQ(
        loadError("lost"),
        cat(directory, "/lost.toml:2: base_environment: the environment definition 'nowhere' was not found"));
}

TEST_F(Edf, ImagesInTheForms) {
    const auto image = [&](const std::string& text) {
        return *edfImage(parseEdf(cat("image='", text, "'"), "x.toml"), lookup);
    };
    EXPECT_EQ(image("debian:12"), "debian:12");
    EXPECT_EQ(image("nvcr.io#nvidia/cuda:12"), "nvcr.io/nvidia/cuda:12");
    EXPECT_EQ(image("me@nvcr.io#nvidia/cuda:12"), "nvcr.io/nvidia/cuda:12");
    EXPECT_EQ(image("debian@sha256:0"), "debian@sha256:0");
    EXPECT_EQ(image("/path/a#b.sqsh"), "/path/a#b.sqsh");
    EXPECT_EQ(image("${A}"), "x y");
    EXPECT_FALSE(edfImage(parseEdf("", "x.toml"), lookup));
    EXPECT_THROW(image(""), Error);
}

TEST_F(Edf, MountsAreVolumes) {
    apply(
        R"(mounts = ["/a:/b", "./in:/in:ro", "/one", "../x:/x:rw+private", "/p:/p:nodev,ro", "${EMPTY:-/e}:/e", "/f:/f:sqsh"])");
    EXPECT_THAT(
        mounts(),
        ElementsAre("type=bind,source=/a,destination=/b",
                    "type=bind,source=/cwd/./in,destination=/in,readonly",
                    "type=bind,source=/one,destination=/one", "type=bind,source=/cwd/../x,destination=/x",
                    "type=bind,source=/p,destination=/p,readonly", "type=bind,source=/e,destination=/e",
                    "type=squashfs,source=/f,destination=/f"));
    EXPECT_EQ(applyError("mounts=['a:/b']"),
              "x.toml:1: mounts[0]: the source 'a' must begin with '/' or '.'");
    EXPECT_EQ(applyError("mounts=['/a:/b:squash']"),
              "x.toml:1: mounts[0]: the mount flag 'squash' is not supported");
    EXPECT_EQ(applyError("mounts=['/a:/b:ro:x']"),
              "x.toml:1: mounts[0]: expected SOURCE:DESTINATION[:FLAGS], found '/a:/b:ro:x'");
    EXPECT_EQ(applyError("mounts=['']"),
              "x.toml:1: mounts[0]: expected SOURCE:DESTINATION[:FLAGS], found ''");
    EXPECT_THAT(applyError("mounts=['/a:b']"), HasSubstr("x.toml:1: mounts[0]: Invalid mount request"));
    EXPECT_EQ(applyError("mounts=['$NO:/b']"), "x.toml:1: mounts[0]: the variable 'NO' is not defined");
}

TEST_F(Edf, TheValueOfAVariableInAMountIsAPath) {
    variables["RUN"] = R"(/lr=0.1,batch=32:a\b)";
    apply(R"(mounts = ['$RUN/in:/m:ro', '/a\:b,c:$RUN'])");
    ASSERT_EQ(request.mounts.size(), 2U);
    EXPECT_EQ(request.mounts[0].source, R"(/lr=0.1,batch=32:a\b/in)");
    EXPECT_TRUE(request.mounts[0].readonly);
    EXPECT_EQ(request.mounts[1].source, "/a:b,c");
    EXPECT_EQ(request.mounts[1].destination, R"(/lr=0.1,batch=32:a\b)");
}

TEST_F(Edf, TheCommandLineWins) {
    request.env = {"A=cli"};
    request.mounts = {oci::mountInPlace("/cli")};
    request.devices = {"/dev/cli"};
    request.annotations = {"k=cli"};
    request.workdir = "/cli";
    request.entrypoint = std::vector<std::string>{"cli"};
    apply(
        "mounts=['/a']\ndevices=['/dev/a','v.com/c=d']\nworkdir='/"
        "edf'\nentrypoint=false\n[env]\nA='edf'\n[annotations]\nk='edf'");
    EXPECT_THAT(request.env, ElementsAre("A=edf", "A=cli"));
    EXPECT_THAT(mounts(),
                ElementsAre("type=bind,source=/a,destination=/a", "type=bind,source=/cli,destination=/cli"));
    EXPECT_THAT(request.devices, ElementsAre("/dev/a", "v.com/c=d", "/dev/cli"));
    EXPECT_THAT(request.annotations, ElementsAre("k=edf", "k=cli"));
    EXPECT_EQ(request.workdir, "/cli");
    EXPECT_THAT(*request.entrypoint, ElementsAre("cli"));
    EXPECT_FALSE(request.readonlyRoot);
}

TEST_F(Edf, TheEntrypointOfTheImageIsLeftOutUnlessAskedFor) {
    apply("workdir=''\nwritable=false");
    ASSERT_TRUE(request.entrypoint);
    EXPECT_THAT(*request.entrypoint, IsEmpty());
    EXPECT_FALSE(request.workdir);
    EXPECT_TRUE(request.readonlyRoot);
    request = {};
    apply("entrypoint=true\nworkdir='/w'\n[env]\nA='$A'\nGONE=''");
    EXPECT_FALSE(request.entrypoint);
    EXPECT_EQ(request.workdir, "/w");
    EXPECT_THAT(request.env, ElementsAre("A=x y"));
    EXPECT_THAT(request.unsetEnv, ElementsAre("GONE"));
}

TEST_F(Edf, ValuesAreCheckedWhereTheyStand) {
    EXPECT_THAT(applyError("devices=['fuse']"),
                HasSubstr("x.toml:1: devices[0]: Invalid device request 'fuse'"));
    EXPECT_THAT(applyError("workdir='rel'"),
                HasSubstr("x.toml:1: workdir: The working directory 'rel' is invalid"));
    EXPECT_THAT(applyError("[env]\nA='${B'"), HasSubstr("x.toml:2: env.A: "));
    EXPECT_THAT(applyError("[annotations]\na.b='$B'"), HasSubstr("x.toml:2: annotations.a.b: "));
}

}  // namespace
}  // namespace sarus::cli::edf_test
