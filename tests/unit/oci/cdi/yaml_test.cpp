#include "oci/cdi/yaml.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci::yaml_test {
namespace {

std::string json(std::string_view yaml) {
    return parseYaml(yaml, "x.yaml").dump();
}

std::string failure(std::string_view yaml) {
    try {
        return cat("accepted as ", json(yaml));
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(Yaml, listsMayStandAtTheIndentationOfTheirKey) {
    EXPECT_EQ(json("---\na:\n- x: 1\n  y: two\n- z\nb:\n    - 1\n    -\n      - 2\n"),
              R"({"a":[{"x":1,"y":"two"},"z"],"b":[1,[2]]})");
    EXPECT_EQ(json("a:\n- - 1\n  - 2\n- b:\n  - c\n  d: 1\n"), R"({"a":[[1,2],{"b":["c"],"d":1}]})");
    EXPECT_EQ(json("a:\nb:\n  c:\n  d: x\n...\n"), R"({"a":null,"b":{"c":null,"d":"x"}})");
    EXPECT_EQ(json("- 1\r\n- 2"), "[1,2]");
}

TEST(Yaml, scalarsAreWholeNumbersConstantsAndStrings) {
    EXPECT_EQ(json("- 0\n- -5\n- ~\n- null\n- true\n- False\n- 0.5.0\n- yes\n- 1:2\n"),
              R"([0,-5,null,null,true,false,"0.5.0","yes","1:2"])");
    EXPECT_EQ(json("- \"0\"\n- '1'\n- \"\"\n"), R"(["0","1",""])");
    EXPECT_EQ(json("- 0x1F\n- 0o17\n- 0660\n- 08\n- 1.5\n- 1e3\n- +1\n"),
              R"(["0x1F","0o17","0660","08","1.5","1e3","+1"])");
}

TEST(Yaml, quotedTextAndComments) {
    EXPECT_EQ(json("# c\na: 'it''s # no comment' # comment\n\"b: c\": \"x\\ty\\\"\"\nd: a#b #c\ne: # "
                   "nothing\nf: -x\n"),
              R"({"a":"it's # no comment","b: c":"x\ty\"","d":"a#b","e":null,"f":"-x"})");
    EXPECT_EQ(json("a: --link\nb: libcuda.so.1::/usr/lib/libcuda.so\n"),
              R"({"a":"--link","b":"libcuda.so.1::/usr/lib/libcuda.so"})");
}

TEST(Yaml, aPlainScalarGoesOnOverIndentedLines) {
    EXPECT_EQ(json("a: one\n  two\n  three # end\nb:\n- x\n  y\n- z\n"),
              R"({"a":"one two three","b":["x y","z"]})");
}

TEST(Yaml, bracketsOnOneLine) {
    EXPECT_EQ(json("a: [ro, \"x, y\", [1, {b: c}], ]\nb: {}\nc: [] # none\nd: {x: 1, 'y': [a]}\n"),
              R"({"a":["ro","x, y",[1,{"b":"c"}]],"b":{},"c":[],"d":{"x":1,"y":["a"]}})");
    EXPECT_EQ(failure("a: [1,\n  2]\n"),
              "x.yaml: line 1: a list or mapping in brackets must end on the line where it begins");
    EXPECT_EQ(failure("a: [1 2] x\n"), "x.yaml: line 1: unexpected text after a value");
    EXPECT_EQ(failure("a: {b}\n"), "x.yaml: line 1: expected 'key: value' in braces");
    EXPECT_EQ(failure("a: [,]\n"), "x.yaml: line 1: a value cannot begin with ',': put it into quotes");
}

TEST(Yaml, whatCouldMeanSomethingElseToAnotherReaderIsRefused) {
    EXPECT_EQ(failure("a: &x 1\n"), "x.yaml: line 1: anchors and aliases are not supported");
    EXPECT_EQ(failure("a: 1\nb: *x\n"), "x.yaml: line 2: anchors and aliases are not supported");
    EXPECT_EQ(failure("a: !!str 1\n"), "x.yaml: line 1: tags are not supported");
    EXPECT_EQ(failure("%YAML 1.2\n---\na: 1\n"), "x.yaml: line 1: directives are not supported");
    EXPECT_EQ(failure("a: 1\n---\nb: 1\n"), "x.yaml: line 2: there can be one document only");
    EXPECT_EQ(failure("a: |\n  text\n"),
              "x.yaml: line 1: block scalars ('|' and '>') are not supported: put the text into quotes");
    EXPECT_EQ(failure("? a\n: b\n"), "x.yaml: line 1: expected a mapping or a list");
    EXPECT_EQ(failure("a:\n  <<: b\n"), "x.yaml: line 2: merge keys are not supported");
    EXPECT_EQ(failure("a: 1\na: 2\n"), "x.yaml: line 2: the key 'a' is given twice");
    EXPECT_EQ(failure("a: {b: 1, b: 2}\n"), "x.yaml: line 1: the key 'b' is given twice");
    EXPECT_EQ(failure("a:\n\tb: 1\n"), "x.yaml: line 2: a tab cannot be used for indentation");
    EXPECT_EQ(failure("a:\n  b: 1\n c: 2\n"),
              "x.yaml: line 3: the indentation does not fit to what is above");
    EXPECT_EQ(failure("a: b: c\n"), "x.yaml: line 1: a ':' in a plain value: put the value into quotes");
    EXPECT_EQ(failure("a: \"x\n  y\"\n"),
              "x.yaml: line 1: a quoted text must end on the line where it begins");
    EXPECT_EQ(failure("a: \"\\q\"\n"), "x.yaml: line 1: unknown character after a backslash");
    EXPECT_EQ(failure("a: \x01\n"), "x.yaml: line 1: it holds a control character or is not UTF-8");
    EXPECT_EQ(failure("just text\n"), "x.yaml: line 1: expected a mapping or a list");
    EXPECT_EQ(failure("\n# nothing\n"), "x.yaml: the document is empty");
}

TEST(Yaml, depthAndNumberOfKeysAreBounded) {
    EXPECT_EQ(failure(std::string(10000, '[')), "x.yaml: line 1: expected a mapping or a list");
    EXPECT_EQ(failure(cat("a: ", std::string(10000, '['))),
              "x.yaml: line 1: it is nested deeper than 32 levels");
    std::string dashes;
    for (int i = 0; i < 10000; ++i) {
        dashes += "- ";
    }
    EXPECT_EQ(failure(dashes + "x"), "x.yaml: line 1: it is nested deeper than 32 levels");
    std::string many;
    for (int i = 0; i < 2000; ++i) {
        many += cat("k", i, ":\n");
    }
    EXPECT_EQ(failure(many), "x.yaml: line 1001: a mapping has more than 1000 keys");
}

}  // namespace
}  // namespace sarus::oci::yaml_test
