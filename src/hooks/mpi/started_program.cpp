#include "hooks/mpi/started_program.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/root_files.hpp"
#include "hook_contracts/enter_call.hpp"
#include "hooks/kit/host_library.hpp"

namespace sarus::hooks::mpi {

namespace {

constexpr std::size_t maxObjects = 1000;
constexpr std::size_t maxLookups = 20'000;

/// The path of an open file as seen inside, without symbolic links; empty if unknown.
std::string pathInside(int root, int file) {
    const auto top = pathOfDescriptor(root);
    auto path = pathOfDescriptor(file);
    if (top == "/") {
        return path;
    }
    return path.starts_with(cat(top, '/')) ? path.substr(top.size()) : std::string();
}

struct Program {
    std::string path;
    ElfFile elf;
};

class ProgramFinder {
public:
    ProgramFinder(const StartedCommand& theCommand, int rootFd) : command(theCommand), root(rootFd) {}

    std::optional<Program> find() const {
        const auto& arguments = command.arguments;
        if (arguments.empty() || arguments.front().empty()) {
            return std::nullopt;
        }
        auto file = openExecutable(arguments.front());
        if (const auto interpreter = file ? interpreterOf(file.get()) : std::string(); !interpreter.empty()) {
            file = container_root::tryOpenFileInRoot(root, absolute(interpreter));
        }
        return file ? read(file.get()) : std::nullopt;
    }

    std::optional<Program> read(int file) const {
        try {
            auto elf = readElf(file);
            auto path = pathInside(root, file);
            return elf && !path.empty() ? std::optional(Program{std::move(path), std::move(*elf)})
                                        : std::nullopt;
        } catch (const Error&) {
            return std::nullopt;  // the kernel or the dynamic linker will refuse it
        }
    }

private:
    std::string absolute(std::string_view path) const {
        return path.starts_with('/') ? std::string(path) : cat(command.workingDirectory, '/', path);
    }

    UniqueFd openExecutable(const std::string& name) const {
        if (name.find('/') != std::string::npos) {
            return container_root::tryOpenFileInRoot(root, absolute(name));
        }
        for (const auto& directory : split(command.path, ':')) {
            auto file = container_root::tryOpenFileInRoot(root, cat(absolute(directory), '/', name));
            struct stat status {};
            constexpr mode_t executable = S_IXUSR | S_IXGRP | S_IXOTH;
            if (file && ::fstat(file.get(), &status) == 0 && (status.st_mode & executable) != 0) {
                return file;
            }
        }
        return {};
    }

    /// The program of a "#!" line; empty if there is none.
    static std::string interpreterOf(int file) {
        std::array<char, 256> head;  // the kernel reads as much
        const auto count = ::pread(file, head.data(), head.size(), 0);
        const std::string_view text(head.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
        if (!text.starts_with("#!")) {
            return {};
        }
        const auto words = splitWords(text.substr(2, text.find('\n') - 2));
        return words.empty() ? std::string() : words.front();
    }

    const StartedCommand& command;
    int root;
};

/// Follows the needs of a program in the order of the dynamic linker.
class Loader {
public:
    Loader(const StartedCommand& theCommand, int rootFd, const LibrarySearch& theSearch, const ElfFile& elf,
           const LibraryUseOf& theUseOf)
        : command(theCommand), root(rootFd), search(theSearch), like(elf), useOf(theUseOf) {}

    StartedProgram load(Program program) {
        StartedProgram result{.path = program.path};
        isMusl = program.elf.interpreter.value_or("").find("/ld-musl-") != std::string::npos;
        environmentDirectories = directories(command.libraryPath, {});
        add(std::move(program.elf), program.path, 0);
        result.directories = objects.front().inherited;
        std::set<std::string, std::less<>> asked;
        for (std::size_t i = 0; i < objects.size(); ++i) {
            const auto needs = objects[i].elf.needed;
            for (const auto& name : needs) {
                if (isOfCLibrary(name) || !asked.insert(name).second) {
                    continue;
                }
                auto found = locate(i, name);
                if (lookups > maxLookups || objects.size() > maxObjects) {
                    return {};
                }
                if (!found) {
                    continue;
                }
                const auto use = useOf(fileNameOf(name));
                if (use != LibraryUse::none) {
                    result.libraries.push_back(*found);
                }
                if (use == LibraryUse::counterpart) {
                    continue;
                }
                result.otherLibraries.emplace(name, found->elf.versionDefinitions);
                add(std::move(found->elf), found->path, i);
            }
        }
        return result;
    }

    std::vector<FoundLibrary> loadAll(const std::string& path, const std::vector<std::string>& plugins,
                                      std::vector<std::string>& missing) {
        std::vector<FoundLibrary> result;
        std::set<std::string, std::less<>> asked;
        environmentDirectories = directories(command.libraryPath, {});
        addFile(path);
        follow(0, asked, result, &missing);
        for (const auto& plugin : plugins) {
            const auto first = objects.size();
            if (addFile(plugin)) {
                follow(first, asked, result, nullptr);
            }
        }
        return result;
    }

private:
    bool addFile(const std::string& path) {
        const auto file = container_root::tryOpenFileInRoot(root, path);
        auto program = file ? ProgramFinder(command, root).read(file.get()) : std::nullopt;
        if (!program || !program->elf.isDynamic || !isSameMachine(program->elf, like)) {
            return false;
        }
        add(std::move(program->elf), program->path, 0);
        return true;
    }

    /// What the objects from number `i` on need, and what that needs.
    void follow(std::size_t i, std::set<std::string, std::less<>>& asked, std::vector<FoundLibrary>& result,
                std::vector<std::string>* missing) {
        for (; i < objects.size() && objects.size() <= maxObjects; ++i) {
            const auto needs = objects[i].elf.needed;
            for (const auto& name : needs) {
                if (isOfCLibrary(name) || asked.contains(name)) {
                    continue;
                }
                auto found = locate(i, name);
                if (found) {
                    asked.insert(name);
                    add(found->elf, found->path, i);
                    result.push_back(std::move(*found));
                } else if (missing != nullptr) {
                    missing->push_back(cat(name, ", needed by ", objects[i].path));
                }
            }
        }
    }

    struct Object {
        ElfFile elf;
        std::string path;
        std::string origin;
        std::size_t loader;                  ///< the object that needs it
        std::vector<std::string> inherited;  ///< also searched for what its libraries need
        std::vector<std::string> own;        ///< searched for what it needs itself
    };

    /// DT_RPATH counts only without DT_RUNPATH; for musl both are the same.
    void add(ElfFile elf, const std::string& path, std::size_t loader) {
        auto origin = directoryOf(path);
        auto runpath = directories(elf.runpath.value_or(""), origin);
        auto rpath = elf.runpath ? std::vector<std::string>() : directories(elf.rpath.value_or(""), origin);
        if (isMusl && elf.runpath) {
            std::swap(rpath, runpath);
        }
        objects.push_back(
            {std::move(elf), path, std::move(origin), loader, std::move(rpath), std::move(runpath)});
    }

    std::optional<FoundLibrary> locate(std::size_t requester, const std::string& name) {
        const auto& object = objects[requester];
        if (name.find('/') != std::string::npos) {
            return open(directoryOf(expand(name, object.origin)), fileNameOf(name));
        }
        if (isMusl) {
            if (auto found = openAny(environmentDirectories, name)) {
                return found;
            }
        }
        if (isMusl || !object.elf.runpath) {
            for (auto i = requester;; i = objects[i].loader) {
                if (auto found = openAny(objects[i].inherited, name)) {
                    return found;
                }
                if (i == 0) {
                    break;
                }
            }
        }
        if (!isMusl) {
            if (auto found = openAny(environmentDirectories, name)) {
                return found;
            }
            if (auto found = openAny(object.own, name)) {
                return found;
            }
        }
        constexpr std::size_t usualDirectories = 10;
        lookups += usualDirectories;
        return search.find(like, name);
    }

    static std::string expand(std::string text, const std::string& origin) {
        for (const std::string_view token : {"$ORIGIN", "${ORIGIN}"}) {
            for (auto at = text.find(token); at != std::string::npos;
                 at = text.find(token, at + origin.size())) {
                text.replace(at, token.size(), origin);
            }
        }
        return text;
    }

    /// The existing directories of a list, without links. Empty names stand for the working directory. Of the
    /// tokens, only $ORIGIN is supported.
    std::vector<std::string> directories(std::string_view list, const std::string& origin) {
        std::vector<std::string> result;
        for (const auto& entry : list.empty() ? std::vector<std::string>() : split(list, ':')) {
            const auto path = expand(entry, origin);
            if (path.find('$') != std::string::npos) {
                continue;
            }
            if (const auto& real =
                    realDirectory(path.starts_with('/') ? path : cat(command.workingDirectory, '/', path));
                !real.empty()) {
                result.push_back(real);
            }
        }
        return result;
    }

    const std::string& realDirectory(const std::string& path) {
        auto [position, isNew] = realDirectories.emplace(path, std::string());
        if (isNew && ++lookups <= maxLookups) {
            if (const auto directory = container_root::tryOpenDirectoryInRoot(root, path)) {
                position->second = pathInside(root, directory.get());
            }
        }
        return position->second;
    }

    std::optional<FoundLibrary> openAny(const std::vector<std::string>& list, const std::string& name) {
        for (const auto& directory : list) {
            if (auto found = open(directory, name)) {
                return found;
            }
        }
        return std::nullopt;
    }

    std::optional<FoundLibrary> open(const std::string& directory, const std::string& name) {
        if (++lookups > maxLookups) {
            return std::nullopt;
        }
        return search.open(like, cat(directory, directory.ends_with('/') ? "" : "/", name),
                           ElfDetail::everything);
    }

    const StartedCommand& command;
    int root;
    const LibrarySearch& search;
    const ElfFile& like;
    const LibraryUseOf& useOf;
    bool isMusl = false;
    std::vector<Object> objects;
    std::vector<std::string> environmentDirectories;
    std::map<std::string, std::string> realDirectories;
    std::size_t lookups = 0;
};

}  // namespace

bool isOfCLibrary(std::string_view name) {
    constexpr std::array<std::string_view, 14> beginnings{
        "libc.so",      "libm.so",    "libpthread.so", "libdl.so",       "librt.so",
        "libresolv.so", "libutil.so", "libanl.so",     "libmvec.so",     "ld-linux",
        "ld64.so",      "ld-musl",    "libc.musl",     "libthread_db.so"};
    return std::any_of(beginnings.begin(), beginnings.end(),
                       [&](auto text) { return name.starts_with(text); });
}

StartedCommand startedCommand(const oci::BundleConfig& config) {
    auto [arguments, workingDirectory] = hook_contracts::findContainerCommand(config);
    return {.arguments = std::move(arguments),
            .workingDirectory = std::move(workingDirectory),
            .path = config.variable("PATH").value_or(""),
            .libraryPath = config.variable("LD_LIBRARY_PATH").value_or("")};
}

StartedProgram readStartedProgram(const StartedCommand& command, int root, const LibrarySearch& search,
                                  const ElfFile& like, const LibraryUseOf& useOf) {
    const container_root::ContainerView view;  // once, instead of for each of many files
    auto program = ProgramFinder(command, root).find();
    if (!program || !program->elf.isDynamic || !isSameMachine(program->elf, like)) {
        return {};
    }
    return Loader(command, root, search, like, useOf).load(std::move(*program));
}

std::vector<FoundLibrary> readNeededLibraries(const std::string& path,
                                              const std::vector<std::string>& plugins,
                                              const LibrarySearch& search, std::string_view libraryPath,
                                              std::vector<std::string>& missing) {
    const auto root = openFile("/", O_PATH | O_DIRECTORY);
    const auto library = readHostLibrary(path);
    const StartedCommand command{.workingDirectory = "/", .libraryPath = std::string(libraryPath)};
    const LibraryUseOf none = [](std::string_view) { return LibraryUse::none; };
    return Loader(command, root.get(), search, library.elf, none).loadAll(path, plugins, missing);
}

}  // namespace sarus::hooks::mpi
