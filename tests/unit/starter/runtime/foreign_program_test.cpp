#include "starter/runtime/foreign_program.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/file_io.hpp"

namespace sarus::starter::foreign_program_test {
namespace {

std::string headerOf(unsigned machine, bool bigEndian = false) {
    std::string header(64, '\0');
    header.replace(0, 4, ELFMAG);
    header[EI_DATA] = bigEndian ? ELFDATA2MSB : ELFDATA2LSB;
    const auto low = static_cast<char>(machine & 0xffU);
    const auto high = static_cast<char>(machine >> 8U);
    header[18] = bigEndian ? high : low;
    header[19] = bigEndian ? low : high;
    return header;
}

TEST(ForeignProgram, TheProcessorsAndThePlatformAreNamed) {
#if defined(__x86_64__)
    EXPECT_EQ(describeForeignProgram("./a\nb", headerOf(EM_AARCH64)),
              "The program \"./a\\x0ab\" is for aarch64 processors, and this node has x86_64\n"
              "Get the image for this node: sarus pull --platform linux/amd64");
#endif
    EXPECT_NE(describeForeignProgram("x", headerOf(EM_S390, true)).find("is for s390x processors"),
              std::string::npos);
    EXPECT_NE(describeForeignProgram("x", headerOf(4660)).find("other processors (number 4660 of ELF)"),
              std::string::npos);
}

TEST(ForeignProgram, NothingIsSaidOfProgramsOfThisNodeAndOfOtherFiles) {
    EXPECT_EQ(describeForeignProgram("x", readFile("/proc/self/exe", 256U << 20U)), "");
    for (const std::string& text :
         {std::string(), std::string("#!/bin/sh\n"), std::string(ELFMAG), headerOf(4660).substr(0, 19)}) {
        EXPECT_EQ(describeForeignProgram("x", text), "");
    }
#if defined(__x86_64__)
    EXPECT_EQ(describeForeignProgram("x", headerOf(EM_386)), "");
#endif
}

}  // namespace
}  // namespace sarus::starter::foreign_program_test
