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
    EXPECT_EQ(json("---\na:\n- x: 1\n  w: two\n- z\nb:\n    - 1\n    -\n      - 2\n"),
              R"({"a":[{"x":1,"w":"two"},"z"],"b":[1,[2]]})");
    EXPECT_EQ(json("a:\n- - 1\n  - 2\n- b:\n  - c\n  d: 1\n"), R"({"a":[[1,2],{"b":["c"],"d":1}]})");
    EXPECT_EQ(json("a:\nb:\n  c:\n  d: x\n...\n"), R"({"a":null,"b":{"c":null,"d":"x"}})");
    EXPECT_EQ(json("- 1\r\n- 2"), "[1,2]");
}

TEST(Yaml, scalarsAreThoseOfGosReaders) {
    EXPECT_EQ(json("- 0\n- -5\n- ~\n- null\n-\n- true\n- False\n- 0.5.0\n- yes\n- Off\n- yEs\n- 1:2\n"),
              R"([0,-5,null,null,null,true,false,"0.5.0",true,false,"yEs","1:2"])");
    EXPECT_EQ(json("- \"0\"\n- '1'\n- \"\"\n- 'yes'\n"), R"(["0","1","","yes"])");
    EXPECT_EQ(json("- 0x1F\n- 0o17\n- 0660\n- 08\n- 0b101\n- 1.5\n- 1e3\n- +1\n- 1_000\n- -0x10\n"),
              R"([31,15,432,8,5,1.5,1000,1,1000,-16])");
    EXPECT_EQ(json("- 18446744073709551615\n- -9223372036854775807\n- 0x\n- 1.2.3\n- --1\n- 2026-11-27\n"),
              R"([18446744073709551615,-9223372036854775807,"0x","1.2.3","--1","2026-11-27"])");
}

TEST(Yaml, blockScalars) {
    EXPECT_EQ(json("a: |\n  one\n   two\n\n  three\nb: >\n  one\n  two\n\n  three\n    four\n  five\n"),
              R"({"a":"one\n two\n\nthree\n","b":"one two\nthree\n  four\nfive\n"})");
    EXPECT_EQ(json("a: |-\n  x\n\nb: |+\n  x\n\nc: >-\n  x\n  y\n\nd: >+ # comment\n  x\n\n"),
              R"({"a":"x","b":"x\n\n","c":"x y","d":"x\n\n"})");
    EXPECT_EQ(json("- |2\n   x\n- |1-\n  y\n- >\n\n  z\n"), R"([" x\n"," y","\nz\n"])");
    EXPECT_EQ(json("a: |\nb: |\n  end"), R"({"a":"","b":"end"})");
    EXPECT_EQ(failure("a: | x\n"), "x.yaml: line 1: unexpected text behind '|' or '>'");
}

TEST(Yaml, quotedTextAndComments) {
    EXPECT_EQ(json("# c\na: 'it''s # no comment' # comment\n\"b: c\": \"x\\ty\\\"\"\nd: a#b #c\ne: # "
                   "nothing\nf: -x\n"),
              R"({"a":"it's # no comment","b: c":"x\ty\"","d":"a#b","e":null,"f":"-x"})");
    EXPECT_EQ(json("a: --link\nb: libcuda.so.1::/usr/lib/libcuda.so\n"),
              R"({"a":"--link","b":"libcuda.so.1::/usr/lib/libcuda.so"})");
}

TEST(Yaml, textsOverSeveralLines) {
    EXPECT_EQ(json("a: one\n  two\n  three # end\nb:\n- x\n  y\n\n\n  w\n- z\n"),
              R"({"a":"one two three","b":["x y\n\nw","z"]})");
    EXPECT_EQ(json("a: \"one \n  two\n\n  th\\\n  ree\\  \n\"\nb: 'it''s\n  so'\n"),
              R"({"a":"one two\nthree  ","b":"it's so"})");
}

TEST(Yaml, escapes) {
    EXPECT_EQ(json(R"(a: "\x41\u00e9\U0001F600\e\/\\\"\t\_" )"),
              "{\"a\":\"A\u00e9\U0001F600\\u001b/\\\\\\\"\\t\u00a0\"}");
    EXPECT_EQ(failure("a: \"\\q\"\n"), "x.yaml: line 1: unknown character after a backslash");
    EXPECT_EQ(failure("a: \"\\x4\"\n"), "x.yaml: line 1: expected 2 hexadecimal digits after \\x");
    EXPECT_EQ(failure("a: \"\\ud800\"\n"), "x.yaml: line 1: an escape names no character of Unicode");
}

TEST(Yaml, brackets) {
    EXPECT_EQ(
        json("a: [ro, \"x, y\", [1, {b: c}], ]\nb: {}\nc: [] # none\nd: {x: 1, 'y': [a], z, \"w\":2}\n"),
        R"({"a":["ro","x, y",[1,{"b":"c"}]],"b":{},"c":[],"d":{"x":1,"y":["a"],"z":null,"w":2}})");
    EXPECT_EQ(json("a: [1, # one\n2,\n  three\n  and four]\nb: [k: v, w]\n"),
              R"({"a":[1,2,"three and four"],"b":[{"k":"v"},"w"]})");
    EXPECT_EQ(failure("a: [1\n"), "x.yaml: line 2: a list or mapping in brackets does not end");
    EXPECT_EQ(failure("a: [1 2] x\n"), "x.yaml: line 1: unexpected text after a value");
    EXPECT_EQ(failure("a: [,]\n"), "x.yaml: line 1: a value is missing in brackets");
    EXPECT_EQ(failure("a: {[x]: 1}\n"), "x.yaml: line 1: a key must be a text");
}

TEST(Yaml, anchorsTagsAndMergedKeys) {
    EXPECT_EQ(json("a: &x [1, 2]\nb: *x\nc: &y\n  k: v\nd:\n  <<: *y\n  w: 1\n"),
              R"({"a":[1,2],"b":[1,2],"c":{"k":"v"},"d":{"k":"v","w":1}})");
    EXPECT_EQ(json("- !!str 1\n- !!int \"7\"\n- ! 2\n- !<tag:yaml.org,2002:str> yes\n- !!seq [a]\n- !!map\n  "
                   "b: 1\n- !!str\n"),
              R"(["1",7,"2","yes",["a"],{"b":1},""])");
    EXPECT_EQ(json("&a k: *a\n? long\n: - x\n"), R"({"k":"k","long":["x"]})");
    EXPECT_EQ(failure("b: *x\n"), "x.yaml: line 1: there is no anchor of this name before the alias");
    EXPECT_EQ(failure("b: !!int x\n"),
              "x.yaml: line 1: the value is not of the type !!int, or the type is not supported");
    EXPECT_EQ(failure("b: !own x\n"),
              "x.yaml: line 1: the value is not of the type !own, or the type is not supported");
    EXPECT_EQ(failure("a:\n  <<: b\n"), "x.yaml: line 2: '<<' merges mappings only");
}

TEST(Yaml, onlyTheFirstDocumentCounts) {
    EXPECT_EQ(json("\xEF\xBB\xBF# c\n%YAML 1.1\n---\na: 1\n...\nb: 1\n"), R"({"a":1})");
    EXPECT_EQ(json("--- [a]\n--- b\n"), R"(["a"])");
}

TEST(Yaml, whatIsNoYamlIsRefused) {
    EXPECT_EQ(failure("%TAG ! x\n---\na: 1\n"),
              "x.yaml: line 1: directives other than one %YAML 1.1 are not supported");
    EXPECT_EQ(failure("? [a]\n: b\n"), "x.yaml: line 1: a key must be a text");
    EXPECT_EQ(failure("a: 1\na: 2\n"), "x.yaml: line 2: the key 'a' is given twice");
    EXPECT_EQ(failure("a: {b: 1, b: 2}\n"), "x.yaml: line 1: the key 'b' is given twice");
    EXPECT_EQ(failure("a:\n\tb: 1\n"), "x.yaml: line 2: a tab cannot be used for indentation");
    EXPECT_EQ(failure("a:\n  b: 1\n c: 2\n"),
              "x.yaml: line 3: the indentation does not fit to what is above");
    EXPECT_EQ(failure("a: b: c\n"), "x.yaml: line 1: a ':' in a plain value: put the value into quotes");
    EXPECT_EQ(failure("a: - b\n"),
              "x.yaml: line 1: a list or mapping of several lines begins on a line of its own");
    EXPECT_EQ(failure("a: %b\n"), "x.yaml: line 1: a value cannot begin with '%': put it into quotes");
    EXPECT_EQ(failure("a: \"x\n"), "x.yaml: line 2: a quoted text does not end");
    EXPECT_EQ(failure("a: \x01\n"), "x.yaml: line 1: it holds a control character or is not UTF-8");
    EXPECT_EQ(failure("a: 1\nb\n"), "x.yaml: line 2: expected 'key: value'");
    EXPECT_EQ(failure("\n# nothing\n"), "x.yaml: line 3: the document is empty");
}

TEST(Yaml, sizesAreBounded) {
    EXPECT_EQ(failure(std::string(10000, '[')), "x.yaml: line 1: it is nested deeper than 32 levels");
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
    EXPECT_EQ(failure(many), "x.yaml: line 1002: a mapping has more than 1000 keys");
    std::string laughs = "- &a0 [x]\n";
    for (int i = 0; i < 30; ++i) {
        laughs += cat("- &a", i + 1, " [*a", i, ", *a", i, "]\n");
    }
    EXPECT_NE(failure(laughs).find("it has more than 100000 values"), std::string::npos);
}

}  // namespace
}  // namespace sarus::oci::yaml_test
