#include "hooks/kit/linker_cache/library_directories.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/editor.hpp"
#include "container_root/root_files.hpp"
#include "hooks/kit/elf.hpp"

namespace sarus::hooks {

namespace {

constexpr std::size_t maxEntries = 1000;
constexpr std::size_t maxExaminedNames = 100'000;
constexpr std::size_t maxConfigurationSize = 1U << 20U;

constexpr std::array knownLinkers{
    DynamicLinker{CLibrary::glibc, machine::x86_64, "x86_64", "/lib64/ld-linux-x86-64.so.2"},
    DynamicLinker{CLibrary::glibc, machine::aarch64, "aarch64", "/lib/ld-linux-aarch64.so.1"},
    DynamicLinker{CLibrary::glibc, machine::i386, "i386", "/lib/ld-linux.so.2"},
    DynamicLinker{CLibrary::glibc, machine::powerpc64, "powerpc64le", "/lib64/ld64.so.2"},
    DynamicLinker{CLibrary::glibc, machine::s390, "s390x", "/lib/ld64.so.1"},
    DynamicLinker{CLibrary::glibc, machine::riscv, "riscv64", "/lib/ld-linux-riscv64-lp64d.so.1"},
    DynamicLinker{CLibrary::glibc, machine::loongarch, "loongarch64", "/lib64/ld-linux-loongarch-lp64d.so.1"},
    DynamicLinker{CLibrary::glibc, machine::arm, "arm", "/lib/ld-linux-armhf.so.3"},
    DynamicLinker{CLibrary::musl, machine::x86_64, "x86_64", "/lib/ld-musl-x86_64.so.1"},
    DynamicLinker{CLibrary::musl, machine::aarch64, "aarch64", "/lib/ld-musl-aarch64.so.1"},
    DynamicLinker{CLibrary::musl, machine::i386, "i386", "/lib/ld-musl-i386.so.1"},
    DynamicLinker{CLibrary::musl, machine::powerpc64, "powerpc64le", "/lib/ld-musl-powerpc64le.so.1"},
    DynamicLinker{CLibrary::musl, machine::s390, "s390x", "/lib/ld-musl-s390x.so.1"},
    DynamicLinker{CLibrary::musl, machine::riscv, "riscv64", "/lib/ld-musl-riscv64.so.1"},
    DynamicLinker{CLibrary::musl, machine::arm, "armhf", "/lib/ld-musl-armhf.so.1"},
};

/// Debian's name of the machine in library directories; empty if it has none.
std::string_view multiarchName(std::uint16_t machineNumber) {
    switch (machineNumber) {
        case machine::x86_64:
            return "x86_64-linux-gnu";
        case machine::aarch64:
            return "aarch64-linux-gnu";
        case machine::i386:
            return "i386-linux-gnu";
        case machine::powerpc64:
            return "powerpc64le-linux-gnu";
        case machine::s390:
            return "s390x-linux-gnu";
        case machine::riscv:
            return "riscv64-linux-gnu";
        case machine::loongarch:
            return "loongarch64-linux-gnu";
        case machine::arm:
            return "arm-linux-gnueabihf";
        default:
            return {};
    }
}

std::vector<std::string> builtInDirectories(std::uint16_t machineNumber) {
    std::vector<std::string> result{"/lib", "/usr/lib"};
    if (machineNumber != machine::i386 && machineNumber != machine::arm) {
        result.insert(result.end(), {"/lib64", "/usr/lib64"});
    }
    if (machineNumber == machine::riscv) {
        result.insert(result.end(), {"/lib64/lp64d", "/usr/lib64/lp64d"});
    }
    if (const auto name = multiarchName(machineNumber); !name.empty()) {
        result.insert(result.end(), {cat("/lib/", name), cat("/usr/lib/", name)});
    }
    return result;
}

/// Reads /etc/ld.so.conf and its includes.
class Configuration {
public:
    explicit Configuration(int rootFd) : root(rootFd) {}

    void readFile(const std::string& path, std::size_t depth) {
        // The dynamic linker's own reader has no limit here, but a file that includes itself must end
        // somewhere.
        constexpr std::size_t maxDepth = 16;
        if (depth > maxDepth || !seen.insert(path).second) {
            return;
        }
        if (seen.size() > maxEntries) {
            throw Error("The container's /etc/ld.so.conf includes more than 1000 files");
        }
        examined.push_back(path);
        const auto content = container_root::tryReadFileInRoot(root, path, maxConfigurationSize);
        if (!content) {
            return;
        }
        for (const auto& raw : split(*content, '\n')) {
            readLine(std::string(trim(std::string_view(raw).substr(0, raw.find('#')))), path, depth);
        }
    }

    std::vector<std::string> directories;
    std::vector<std::string> examined;

private:
    void readLine(const std::string& line, const std::string& path, std::size_t depth) {
        const auto words = splitWords(line);
        if (words.empty()) {
            return;
        }
        if (words.front() == "include") {
            for (std::size_t i = 1; i < words.size(); ++i) {
                const auto slash = path.rfind('/');
                const auto pattern =
                    words[i].front() == '/' ? words[i] : cat(path.substr(0, slash + 1), words[i]);
                for (const auto& file : expand(pattern)) {
                    readFile(file, depth + 1);
                }
            }
            return;
        }
        if (words.front() == "hwcap" || line.front() != '/') {
            return;
        }
        // "directory=libc5" is an old way to state the library type
        auto directory = line.substr(0, line.find('='));
        while (directory.size() > 1 &&
               (directory.back() == '/' || directory.back() == ' ' || directory.back() == '\t')) {
            directory.pop_back();
        }
        directories.push_back(std::move(directory));
        if (directories.size() > maxEntries) {
            throw Error("The container's /etc/ld.so.conf names more than 1000 directories");
        }
    }

    /// The existing paths that match an absolute pattern, sorted; returns a path without wildcards unchanged.
    std::vector<std::string> expand(const std::string& pattern) {
        countExamined();
        std::vector<std::string> found{""};
        for (const auto& component : split(std::string_view(pattern).substr(1), '/')) {
            if (component.find_first_of("*?[") == std::string::npos) {
                for (auto& path : found) {
                    path += '/';
                    path += component;
                }
                continue;
            }
            std::vector<std::string> next;
            for (const auto& path : found) {
                appendMatches(path, component, next);
            }
            found = std::move(next);
        }
        std::sort(found.begin(), found.end());
        return found;
    }

    void appendMatches(const std::string& directory, const std::string& pattern,
                       std::vector<std::string>& out) {
        examined.push_back(directory.empty() ? "/" : directory);
        auto opened = container_root::tryOpenDirectoryInRoot(root, examined.back());
        if (!opened) {
            return;
        }
        Directory entries(std::move(opened), examined.back());
        while (const char* entry = entries.next()) {
            countExamined();
            if (::fnmatch(pattern.c_str(), entry, FNM_PERIOD) == 0) {
                out.push_back(cat(directory, '/', entry));
                if (out.size() > maxEntries) {
                    throw Error("The container's /etc/ld.so.conf includes more than 1000 files");
                }
            }
        }
    }

    /// Patterns in many files, for many directories, could keep the hook busy for hours.
    void countExamined() {
        if (++examinedNames > maxExaminedNames) {
            throw Error(
                "The container's /etc/ld.so.conf includes too much: more than 100000 names would have to be "
                "looked at");
        }
    }

    int root;
    std::set<std::string> seen;
    std::size_t examinedNames = 0;
};

std::string muslPathFile(std::string_view architecture) {
    return cat("/etc/ld-musl-", architecture, ".path");
}

}  // namespace

std::vector<DynamicLinker> findDynamicLinkers(int root) {
    const container_root::ContainerView view;  // once, instead of for each path
    std::vector<DynamicLinker> result;
    for (const auto& linker : knownLinkers) {
        const auto place = container_root::tryFindInRoot(root, linker.path);
        struct stat status {};
        if (place && ::fstat(place.get(), &status) == 0 && S_ISREG(status.st_mode)) {
            result.push_back(linker);
        }
    }
    return result;
}

std::vector<std::string> configuredLibraryDirectories(int root, std::vector<std::string>* examined) {
    Configuration configuration(root);
    configuration.readFile("/etc/ld.so.conf", 0);
    if (examined != nullptr) {
        examined->insert(examined->end(), configuration.examined.begin(), configuration.examined.end());
    }
    return std::move(configuration.directories);
}

std::vector<std::string> muslLibraryDirectories(int root, std::string_view architecture) {
    const auto content =
        container_root::tryReadFileInRoot(root, muslPathFile(architecture), maxConfigurationSize);
    if (!content) {
        return {"/lib", "/usr/local/lib", "/usr/lib"};
    }
    std::vector<std::string> result;
    for (const auto& line : split(*content, '\n')) {
        for (const auto& directory : split(line, ':')) {
            if (directory.starts_with('/') && result.size() < maxEntries) {
                result.push_back(directory);
            }
        }
    }
    return result;
}

void addMuslLibraryDirectories(int root, std::string_view architecture,
                               const std::vector<std::string>& directories) {
    auto all = muslLibraryDirectories(root, architecture);
    const auto before = all.size();
    for (const auto& directory : directories) {
        if (directory.find_first_of(":\n") != std::string::npos) {
            throw Error(cat("A library directory for a musl container must not contain ':' or a newline: ",
                            printable(directory)));
        }
        if (std::find(all.begin(), all.end(), directory) == all.end()) {
            all.push_back(directory);
        }
    }
    if (all.size() != before) {
        container_root::Editor(root).replaceFile(muslPathFile(architecture), cat(join(all, "\n"), '\n'),
                                                 0644);
    }
}

std::vector<LibraryDirectory> librarySearchDirectories(int root, const std::vector<DynamicLinker>& linkers,
                                                       std::vector<std::string>* examined) {
    std::vector<std::string> names;
    const auto append = [&names](const std::vector<std::string>& more) {
        names.insert(names.end(), more.begin(), more.end());
    };
    const auto isGlibc = [](const DynamicLinker& linker) { return linker.library == CLibrary::glibc; };
    if (std::any_of(linkers.begin(), linkers.end(), isGlibc)) {
        append(configuredLibraryDirectories(root, examined));
    }
    for (const auto& linker : linkers) {
        append(isGlibc(linker) ? builtInDirectories(linker.machine)
                               : muslLibraryDirectories(root, linker.name));
    }
    if (examined != nullptr) {
        examined->insert(examined->end(), names.begin(), names.end());
    }
    std::vector<LibraryDirectory> result;
    std::map<std::pair<dev_t, ino_t>, std::size_t> seen;
    std::set<std::string> tried;
    for (auto& name : names) {
        if (!tried.insert(name).second) {
            continue;
        }
        auto fd = container_root::tryOpenDirectoryInRoot(root, name);
        struct stat status {};
        if (!fd || ::fstat(fd.get(), &status) != 0) {
            continue;
        }
        const auto [position, isNew] = seen.emplace(std::pair(status.st_dev, status.st_ino), result.size());
        if (isNew) {
            result.push_back({std::move(name), std::move(fd), status.st_dev, status.st_ino});
        } else {
            result[position->second].otherNames.push_back(std::move(name));
        }
    }
    return result;
}

}  // namespace sarus::hooks
