#include "starter/verbs/container_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::starter::container_list_test {
namespace {

using testing::IsEmpty;

TEST(ContainerTable, IsTheOneOfRunc) {
    EXPECT_EQ(formatContainerTable({}),
              "ID          PID         STATUS      BUNDLE      CREATED     OWNER\n");
    EXPECT_EQ(formatContainerTable(
                  {{"a-long-name", 17, "running", "/var/bundle", "2026-01-01T00:00:00.5Z", "root"}}),
              "ID            PID         STATUS      BUNDLE        CREATED                  OWNER\n"
              "a-long-name   17          running     /var/bundle   2026-01-01T00:00:00.5Z   root\n");
}

TEST(ContainerTable, ForPeopleHasAgesAndQuotesWhatUsersChose) {
    const ListedContainer entry{.id = "solver",
                                .status = {},
                                .bundle = {},
                                .created = "2026-01-01T00:00:00.5Z",
                                .owner = "u",
                                .image = "i\n",
                                .command = {"a-very-long-program", "with arguments"},
                                .job = "7"};
    constexpr std::time_t twoMinutesLater = 1'767'225'720;
    EXPECT_EQ(formatBriefTable({entry}, twoMinutesLater, true),
              "NAME    IMAGE  COMMAND                   AGE    JOB  USER\n"
              "solver  i\\x0a  a-very-long-program w...  2 min  7    u\n");
    EXPECT_EQ(formatBriefTable({entry}, twoMinutesLater, true, 40),
              "NAME\n  IMAGE  COMMAND  AGE  JOB  USER\nsolver\n  i\\x0a  a-very-long-program w...  2 min\n  "
              "7  u\n");
}

TEST(ContainerJson, KeysAreThoseOfTheManPage) {
    const ListedContainer entry{.id = "a",
                                .pid = 7,
                                .status = "running",
                                .bundle = "/b",
                                .created = "now",
                                .owner = "root",
                                .image = "i",
                                .command = {"ls", "-l"},
                                .job = "4",
                                .step = "0",
                                .task = "2"};
    EXPECT_EQ(formatContainerJson({entry}),
              R"([{"name":"a","pid":7,"status":"running","bundle":"/b","created":"now","owner":"root",)"
              R"("image":"i","args":["ls","-l"],"job":"4","step":"0","task":"2"}])"
              "\n");
    EXPECT_EQ(formatContainerJson({}), "[]\n");
}

TEST(ContainerList, IsReadAsItIsWritten) {
    EXPECT_THAT(parseContainerList(formatContainerJson({})), IsEmpty());
    const auto list = parseContainerList(
        R"([{"name":"b","pid":1},{"name":"a","pid":2,"status":"running","owner":"root"}])");
    ASSERT_EQ(list.size(), 2U);
    EXPECT_EQ(list[1].id, "a");
    EXPECT_EQ(list[1].pid, 2);
    EXPECT_THROW(parseContainerList("{}"), Error);
    EXPECT_THROW(parseContainerList("rubbish"), Error);
}

TEST(Containers, TimesHaveNoZerosAtTheEnd) {
    EXPECT_EQ(withoutLastZeros("2026-01-01T00:00:00.597910Z"), "2026-01-01T00:00:00.59791Z");
    EXPECT_EQ(withoutLastZeros("2026-01-01T00:00:00.500+02:00"), "2026-01-01T00:00:00.5+02:00");
    EXPECT_EQ(withoutLastZeros("2026-01-01T00:00:00.000Z"), "2026-01-01T00:00:00Z");
    for (const auto* unchanged :
         {"2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00.001Z", "2026-01-01T00:00:00Z", "", "."}) {
        EXPECT_EQ(withoutLastZeros(unchanged), unchanged);
    }
}

}  // namespace
}  // namespace sarus::starter::container_list_test
