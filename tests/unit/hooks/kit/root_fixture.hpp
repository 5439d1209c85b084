#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "hooks/kit/elf_builder.hpp"

namespace sarus::test {

/// A root filesystem made for a test.
class Root {
public:
    Root() { directory = openFile(tree.path(), O_PATH | O_DIRECTORY); }
    int fd() const { return directory.get(); }
    std::string operator/(const std::string& path) const { return tree.path() + "/" + path; }
    const std::string& path() const { return tree.path(); }

    void write(const std::string& path, const std::string& content) const {
        makeParent(path);
        replaceFile(*this / path, content, 0755);
    }
    void link(const std::string& path, const std::string& target) const {
        makeParent(path);
        checkErrno(::symlink(target.c_str(), (*this / path).c_str()), "symlink " + path);
    }
    void library(const std::string& path, const std::string& soname, std::uint16_t machine = 62) const {
        ElfBuilder builder;
        builder.machine = machine;
        builder.soname = soname;
        write(path, builder.build());
    }
    /// Makes findDynamicLinkers see a glibc for x86_64.
    void glibc() const {
        library("lib64/ld-linux-x86-64.so.2", "ld-linux-x86-64.so.2");
        createDirectories(*this / "etc");
    }

private:
    void makeParent(const std::string& path) const {
        const auto slash = path.rfind('/');
        createDirectories(slash == std::string::npos ? tree.path() : *this / path.substr(0, slash));
    }
    TemporaryDirectory tree;
    UniqueFd directory;
};

}  // namespace sarus::test
