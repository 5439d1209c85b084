#include "base/text.hpp"

#include <gtest/gtest.h>

#include "base/columns.hpp"

namespace sarus::text_test {
namespace {

TEST(Split, KeepsEmptyParts) {
    EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
    EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
    EXPECT_EQ(split(",", ','), (std::vector<std::string>{"", ""}));
}

TEST(SplitWords, DropsWhiteSpaceRuns) {
    EXPECT_EQ(splitWords("  -comp  gzip\t-b 128K\n"),
              (std::vector<std::string>{"-comp", "gzip", "-b", "128K"}));
    EXPECT_TRUE(splitWords(" \t").empty());
}

TEST(ParseNumber, TakesTheWholeTextOrNothing) {
    EXPECT_EQ(parseNumber("18446744073709551615"), 18446744073709551615ULL);
    for (const auto* bad : {"", "-1", "+1", " 1", "1 ", "1k", "0x10", "18446744073709551616"}) {
        EXPECT_EQ(parseNumber(bad), std::nullopt) << bad;
    }
}

TEST(ClosestMatch, FindsWhatWasMeantAndStaysSilentOtherwise) {
    const std::vector<std::string> commands{"images", "load", "pull", "rmi", "run"};
    EXPECT_EQ(closestMatch("imagse", commands), "images");
    EXPECT_EQ(closestMatch("pul", commands), "pull");
    EXPECT_EQ(closestMatch("rum", commands), "run");
    EXPECT_EQ(closestMatch("kubernetes", commands), std::nullopt);
    EXPECT_EQ(closestMatch("", commands), std::nullopt);
    EXPECT_EQ(closestMatch(std::string(100000, 'a'), commands), std::nullopt);
}

TEST(FormatSize, DividesBy1024WhileLarger) {
    EXPECT_EQ(formatSize(0), "0.00B");
    EXPECT_EQ(formatSize(1024), "1024.00B");
    EXPECT_EQ(formatSize(1025), "1.00KB");
    EXPECT_EQ(formatSize(1016U * 1024U), "1016.00KB");
    EXPECT_EQ(formatSize(42110000), "40.16MB");
}

TEST(RandomLetters, Are16LettersAndDiffer) {
    const auto letters = randomLetters();
    EXPECT_EQ(letters.size(), 16U);
    EXPECT_EQ(letters.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), std::string::npos);
    EXPECT_NE(letters, randomLetters());
}

TEST(Printable, QuotesWhatATerminalWouldInterpret) {
    EXPECT_EQ(printable("plain text, ü, 漢"), "plain text, ü, 漢");
    EXPECT_EQ(printable("a\x1b[31mb\n"), "a\\x1b[31mb\\x0a");
    EXPECT_EQ(printable("\x7f"), "\\x7f");
    EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
    EXPECT_EQ(printable("\xc2\x9b"
                        "31m"),
              "\\xc2\\x9b31m")
        << "C1 control";
    EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
    EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
    EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82") << "truncated";
}

TEST(ShellWord, IsQuotedWhereAShellWouldSplitOrInterpretIt) {
    EXPECT_EQ(shellWord("/opt/sarus-2.0/etc_x,y=%+@:"), "/opt/sarus-2.0/etc_x,y=%+@:");
    EXPECT_EQ(shellWord("a b"), "'a b'");
    EXPECT_EQ(shellWord("it's"), "'it'\\''s'");
    EXPECT_EQ(shellWord("$(id)"), "'$(id)'");
    EXPECT_EQ(shellWord(""), "''");
    EXPECT_EQ(shellWord("a\nb"), "'a\\x0ab'");
}

TEST(FoldLine, BreaksAtBlanksAndInLongWords) {
    EXPECT_EQ(foldLine("one two three", 0, 2), "one two three");
    EXPECT_EQ(foldLine("one two three", 9, 2), "one two\n  three");
    EXPECT_EQ(foldLine("a /very/long/path b", 9, 2), "a\n  /very/l\n  ong/pat\n  h b");
    EXPECT_EQ(foldLine("\u00fc\u00fc\u00fc x", 5, 0), "\u00fc\u00fc\u00fc x");
}

TEST(Columns, ATableThatIsWiderThanTheTerminalIsFolded) {
    const std::vector<std::vector<std::string>> rows{
        {"NAME", "AGE", "SIZE"}, {"docker.io/library/debian", "2 min", "40.16MB"}, {"a", "", "1B"}};
    const auto table =
        "NAME                      AGE    SIZE\ndocker.io/library/debian  2 min  40.16MB\na                  "
        "              1B\n";
    EXPECT_EQ(formatColumns(rows, 2), table);
    EXPECT_EQ(formatColumns(rows, 2, 0, 40), table);
    EXPECT_EQ(formatColumns(rows, 2, 0, 39),
              "NAME\n  AGE  SIZE\ndocker.io/library/debian\n  2 min  40.16MB\na\n  1B\n");
    EXPECT_EQ(formatColumns(rows, 2, 0, 12),
              "NAME\n  AGE  SIZE\ndocker.io/li\nbrary/debian\n  2 min\n  40.16MB\na\n  1B\n");
}

TEST(NormalizePath, DropsEmptyDotAndDotDotComponents) {
    EXPECT_EQ(normalizePath("/"), "/");
    EXPECT_EQ(normalizePath("//"), "/");
    EXPECT_EQ(normalizePath("/etc/"), "/etc");
    EXPECT_EQ(normalizePath("//etc"), "/etc");
    EXPECT_EQ(normalizePath("/./etc/."), "/etc");
    EXPECT_EQ(normalizePath("/a/../etc"), "/etc");
    EXPECT_EQ(normalizePath("/../../etc"), "/etc");
    EXPECT_EQ(normalizePath("/a/b/../../.."), "/");
    EXPECT_EQ(normalizePath("/a/...//b"), "/a/.../b");
}

}  // namespace
}  // namespace sarus::text_test
