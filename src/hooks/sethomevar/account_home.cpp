#include "hooks/sethomevar/account_home.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/pipe.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "hooks/kit/passwd.hpp"

namespace sarus::hooks::sethomevar {

namespace {

constexpr std::size_t largestPasswd = 64U << 20U;
constexpr const char* nodesPasswd = "/etc/passwd";

/// What the node's directory service knows, in the form of passwd(5).
std::string askDirectoryService(uid_t uid, const std::string& searchPath) {
    constexpr std::chrono::seconds patience{10};
    constexpr std::size_t largestAnswer = 64U << 10U;
    const auto program = findProgram("getent", searchPath);
    if (!program) {
        return {};
    }
    auto [reader, writer] = makePipe();
    auto child = start({.path = *program,
                        .args = {"getent", "passwd", cat(uid)},
                        .environment = std::vector<std::string>(),
                        .stdoutFd = writer.get()});
    writer.reset();
    std::string answer;
    if (!readToEnd({{reader.get(), appendTo(answer, largestAnswer)}}, patience)) {
        throw Error(cat(*program, " did not answer within ", patience.count(), " s"),
                    "Name a file with the accounts as PASSWD_FILE in the hook's JSON file");
    }
    child.wait();
    return answer;
}

}  // namespace

Settings readSettings(const HookEnvironment& environment) {
    auto file = environment.find("PASSWD_FILE").value_or("");
    if (!file.empty() && file.front() != '/') {
        throw Error(cat("PASSWD_FILE is not an absolute path: ", printable(file)));
    }
    return {std::move(file), environment.find("PATH").value_or("/usr/bin:/bin")};
}

std::string homeOf(uid_t uid, const Settings& settings) {
    const bool isNodes = settings.passwdFile.empty();
    auto entry = findPasswdEntry(readFile(isNodes ? nodesPasswd : settings.passwdFile, largestPasswd), uid);
    if (!entry && isNodes) {
        entry = findPasswdEntry(askDirectoryService(uid, settings.searchPath), uid);
    }
    if (!entry) {
        throw Error(cat("There is no account with the uid ", uid,
                        isNodes ? "" : cat(" in ", printable(settings.passwdFile))));
    }
    const bool isPath = entry->home.starts_with('/') && std::none_of(entry->home.begin(), entry->home.end(),
                                                                     [](char c) { return c == '\0'; });
    if (!isPath) {
        throw Error(cat("The account with the uid ", uid, " has no home directory, but '",
                        printable(entry->home), '\''));
    }
    return entry->home;
}

}  // namespace sarus::hooks::sethomevar
