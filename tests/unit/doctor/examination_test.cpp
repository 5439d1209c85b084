#include "doctor/examination.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.hpp"

namespace sarus::doctor::examination_test {
namespace {

using testing::HasSubstr;
using Grade = Finding::Grade;

TEST(Examination, FindingsComeInTheOrderOfTheChecks) {
    const auto found = examine({{"slow",
                                 [] {
                                     ::usleep(100'000);
                                     return std::vector<Finding>{{"slow", Grade::note, "late"}};
                                 }},
                                {"nothing", [] { return std::vector<Finding>(); }},
                                {"two", [] {
                                     return std::vector<Finding>{{"a", Grade::ok, "fine"},
                                                                 {"b", Grade::error, "bad\nline", "mend it"}};
                                 }}});
    ASSERT_EQ(found.size(), 3U);
    EXPECT_EQ(found[0].message, "late");
    EXPECT_EQ(found[1].grade, Grade::ok);
    EXPECT_EQ(found[2].message, "bad\nline");
    EXPECT_EQ(found[2].cure, "mend it");
}

TEST(Examination, ACheckThatFailsDiesOrHangsIsAnErrorAndTheOthersCount) {
    const auto found =
        examine({{"fails", []() -> std::vector<Finding> { throw Error("no file", "make one"); }},
                 {"dies", []() -> std::vector<Finding> { ::_exit(3); }},
                 {"hangs",
                  []() -> std::vector<Finding> {
                      ::pause();
                      return {};
                  },
                  std::chrono::seconds(1)},
                 {"works", [] {
                      return std::vector<Finding>{{"works", Grade::ok, "fine"}};
                  }}});
    ASSERT_EQ(found.size(), 4U);
    EXPECT_EQ(found[0].message, "no file");
    EXPECT_EQ(found[0].cure, "make one");
    EXPECT_EQ(found[1].message, "the check failed with status 3");
    EXPECT_EQ(found[2].check, "hangs");
    EXPECT_EQ(found[2].message, "no answer within 1 s");
    EXPECT_EQ(found[2].grade, Grade::error);
    EXPECT_EQ(found[3].grade, Grade::ok);
}

TEST(Examination, StatusIsThatOfAMonitoringPlugin) {
    const Finding fine{"a", Grade::ok, "fine"};
    const Finding note{"b", Grade::note, "a note"};
    const Finding warning{"c", Grade::warning, "a warning", "mend it"};
    const Finding error{"d", Grade::error, "an error", "mend it"};
    EXPECT_EQ(statusOf({}), 0);
    EXPECT_EQ(statusOf({fine, note}), 0);
    EXPECT_EQ(statusOf({fine, warning, note}), 1);
    EXPECT_EQ(statusOf({error, warning}), 2);
}

TEST(Examination, TextIsATableAndJsonAnArray) {
    const std::vector<Finding> findings{{"FUSE", Grade::ok, "fine"},
                                        {"OCI runtime", Grade::error, "old", "newer"}};
    EXPECT_EQ(formatText(findings),
              "ok       FUSE               fine\n"
              "error    OCI runtime        old\n"
              "                            cure: newer");
    EXPECT_EQ(formatJson(findings),
              R"([{"check":"FUSE","status":"ok","message":"fine","cure":""},)"
              R"({"check":"OCI runtime","status":"error","message":"old","cure":"newer"}])");
}

TEST(Examination, FindingsWithoutANameHaveThatOfTheirCheck) {
    const auto found =
        examine({{"own", [] {
                      return std::vector<Finding>{ok("fine"), {"other", Grade::note, "a note"}};
                  }}});
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].check, "own");
    EXPECT_EQ(found[1].check, "other");
}

TEST(Examination, OtherMachinesThatDoNotAnswerAreAWarning) {
    const auto hang = []() -> std::vector<Finding> {
        ::pause();
        return {};
    };
    const auto found = examine({{"far", hang, std::chrono::seconds(1), true}});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].grade, Grade::warning);
    EXPECT_THAT(found[0].cure, HasSubstr("--local"));
}

TEST(Examination, TextFitsTheTerminal) {
    const std::vector<Finding> findings{{"FUSE", Grade::warning, "cannot be opened by anybody on this node",
                                         "chmod 0666 /dev/fuse # as root"}};
    EXPECT_EQ(formatText(findings, 60),
              "warning  FUSE               cannot be opened by anybody on\n"
              "                            this node\n"
              "                            cure: chmod 0666 /dev/fuse # as\n"
              "                            root");
    EXPECT_EQ(formatText(findings, 40),
              "warning  FUSE\n"
              "    cannot be opened by anybody on this\n"
              "    node\n"
              "    cure: chmod 0666 /dev/fuse # as root");
    EXPECT_EQ(formatText({{"a", Grade::ok, "fine"}}, 80, true),
              "\033[1;32mok\033[0m       a                  fine");
}

}  // namespace
}  // namespace sarus::doctor::examination_test
