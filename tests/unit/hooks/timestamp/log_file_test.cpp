#include "hooks/timestamp/log_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::hooks::timestamp::log_file_test {
namespace {

const std::string line = formatLine({1552438146, 449463}, "nid07641", 16741, "After-runtime");

std::string errorOf(const std::string& path, bool withRootsRights) {
    try {
        appendLine(path, line, withRootsRights);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(TimestampLine, HasTheDocumentedForm) {
    EXPECT_EQ(line, "[1552438146.000449463] [nid07641-16741] [hook] [INFO] Timestamp hook: After-runtime\n");
}

TEST(TimestampLine, MessageIsOptional) {
    EXPECT_EQ(formatLine({1, 999999999}, "h", 2, ""), "[1.999999999] [h-2] [hook] [INFO] Timestamp hook:\n");
}

TEST(TimestampLine, IsOneLineWhateverTheMessageHolds) {
    EXPECT_EQ(formatLine({1, 0}, "h", 2, "a\nb"),
              "[1.000000000] [h-2] [hook] [INFO] Timestamp hook: a\\x0ab\n");
}

TEST(TimestampFile, IsCreatedAndAppendedTo) {
    const test::TemporaryDirectory directory;
    const auto path = directory.path() + "/log";
    for (const bool withRootsRights : {false, true}) {
        appendLine(path, line, withRootsRights);
    }
    EXPECT_EQ(readFile(path), line + line);
}

TEST(TimestampFile, UsersMayAppendToWhatTheyWant) {
    const test::TemporaryDirectory directory;
    replaceFile(directory.path() + "/notes", "my notes\n", 0644);
    checkErrno(::symlink("notes", (directory.path() + "/log").c_str()), "symlink");
    appendLine(directory.path() + "/log", line, false);
    EXPECT_EQ(readFile(directory.path() + "/notes"), "my notes\n" + line);
}

TEST(TimestampFile, RootAppendsToNothingButSuchALog) {
    const test::TemporaryDirectory directory;
    const auto path = directory.path() + "/shadow";
    replaceFile(path, "root:*:1:\n" + line, 0644);
    EXPECT_NE(errorOf(path, true).find("it is not a log of this hook"), std::string::npos);
    EXPECT_EQ(readFile(path), "root:*:1:\n" + line);
    appendLine(directory.path() + "/log", line, true);
    checkErrno(::symlink("log", (directory.path() + "/link").c_str()), "symlink");
    EXPECT_NE(errorOf(directory.path() + "/link", true), "no error");
    EXPECT_EQ(readFile(directory.path() + "/log"), line);
}

TEST(TimestampFile, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
    const test::TemporaryDirectory directory;
    const auto fifo = directory.path() + "/fifo";
    checkErrno(::mkfifo(fifo.c_str(), 0600), "mkfifo");
    EXPECT_NE(errorOf(fifo, true).find("it is not a regular file"), std::string::npos);
    EXPECT_NE(errorOf(fifo, false), "no error");
    EXPECT_NE(errorOf(directory.path(), false), "no error");
    EXPECT_NE(errorOf(directory.path() + "/missing/log", false), "no error");
}

}  // namespace
}  // namespace sarus::hooks::timestamp::log_file_test
