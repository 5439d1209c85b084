#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/config_files.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "hook_contracts/inventory.hpp"

namespace sarus::hook_contracts::inventory_directory_as_root_test {
namespace {

using testing::HasSubstr;

Inventories readInventories(const std::string& directory, bool mustBeRoots) {
    return parseInventories(readTrustedFiles(directory, {".cfg", ".json"}, mustBeRoots));
}

class InventoryDirectory : public testing::Test {
protected:
    InventoryDirectory() {
        char name[] = "/tmp/inventories-XXXXXX";
        directory = ::mkdtemp(name);
        ::chmod(directory.c_str(), 0755);
    }
    ~InventoryDirectory() override { removeTree(directory); }

    void add(const std::string& name, const std::string& flag) const {
        replaceFile(directory + '/' + name,
                    R"({"activation_flag": ")" + flag + R"(", "driver_feature": [], "inventory": {}})", 0644);
    }
    std::string flags() const {
        std::string text;
        for (const auto& inventory : readInventories(directory, true).usable) {
            text += inventory.activationFlag;
        }
        return text;
    }
    std::string refusal() const {
        try {
            const auto broken = readInventories(directory, true).broken;
            return broken.empty() ? "accepted" : broken.front().problem;
        } catch (const Error& error) {
            return error.what();
        }
    }

    std::string directory;
};

TEST_F(InventoryDirectory, FilesOfBothKindsAreReadByName) {
    add("20.json", "B");
    add("10.cfg", "A");
    for (const auto* name : {"30.cfg~", "30.json.bak", "README", ".40.cfg"}) {
        replaceFile(directory + '/' + name, "not read", 0644);
    }
    EXPECT_EQ(flags(), "AB");
}

TEST_F(InventoryDirectory, FlagBelongsToOneFile) {
    add("10.cfg", "A");
    add("20.json", "A");
    add("30.json", "B");
    EXPECT_THAT(refusal(), HasSubstr("20.json have the same activation_flag A"));
    EXPECT_EQ(flags(), "B");
}

TEST_F(InventoryDirectory, WhatOthersCanWriteIsRefused) {
    add("10.cfg", "A");
    const auto file = directory + "/10.cfg";
    ASSERT_EQ(::chmod(file.c_str(), 0664), 0);
    EXPECT_THAT(refusal(), HasSubstr("10.cfg is not root's alone"));
    ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
    ASSERT_EQ(::chown(file.c_str(), 1000, 0), 0);
    EXPECT_THAT(refusal(), HasSubstr("10.cfg is not root's alone"));
    ASSERT_EQ(::chown(file.c_str(), 0, 0), 0);
    ASSERT_EQ(::chmod(directory.c_str(), 0777), 0);
    EXPECT_THAT(refusal(), HasSubstr(directory + " is not root's alone"));
    ASSERT_EQ(::chmod(directory.c_str(), 0755), 0);
    ASSERT_EQ(::chown(directory.c_str(), 1000, 0), 0);
    EXPECT_THAT(refusal(), HasSubstr(directory + " is not root's alone"));
}

TEST_F(InventoryDirectory, BrokenFileConcernsItsFlagAlone) {
    add("10.cfg", "A");
    for (const auto* text : {R"({"activation_flag": "B", "driver_feature": 1})",
                             R"({"activation_flag" : "B", "driver_feature": [)"}) {
        replaceFile(directory + "/20.cfg", text, 0644);
        const auto found = readInventories(directory, true);
        ASSERT_EQ(found.broken.size(), 1U);
        EXPECT_EQ(found.broken.front().activationFlag, "B");
        EXPECT_THAT(found.broken.front().problem, HasSubstr("20.cfg"));
        EXPECT_EQ(flags(), "A");
    }
}

TEST_F(InventoryDirectory, FifoDoesNotBlock) {
    ASSERT_EQ(::mkfifo((directory + "/10.cfg").c_str(), 0644), 0);
    EXPECT_THAT(refusal(), HasSubstr("10.cfg is not a regular file"));
}

TEST_F(InventoryDirectory, HugeFileIsRefused) {
    replaceFile(directory + "/10.cfg", std::string((1U << 20U) + 1, ' '), 0644);
    EXPECT_THAT(refusal(), HasSubstr("10.cfg"));
}

TEST_F(InventoryDirectory, MissingDirectoryIsToldByErrno) {
    try {
        readInventories(directory + "/none", true);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.errnum(), ENOENT);
    }
}

}  // namespace
}  // namespace sarus::hook_contracts::inventory_directory_as_root_test
