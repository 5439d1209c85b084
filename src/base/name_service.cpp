#include "base/name_service.hpp"

#include <chrono>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/pipe.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

/// "" if this process cannot open it.
std::string readPasswdFile(const std::string& path) {
    try {
        return readFile(path, largestPasswdFile);
    } catch (const Error& error) {
        if (error.errnum() == 0) {
            throw;
        }
        return {};
    }
}

}  // namespace

std::string askNameService(const std::string& database, const std::vector<std::string>& keys,
                           std::string_view searchPath) {
    constexpr std::chrono::seconds patience{10};
    constexpr std::size_t largestAnswer = 4U << 20U;
    const auto program = findProgram("getent", searchPath);
    if (!program) {
        return {};
    }
    std::vector<std::string> args{"getent", database};
    args.insert(args.end(), keys.begin(), keys.end());
    auto [reader, writer] = makePipe();
    auto child = start({.path = *program,
                        .args = std::move(args),
                        .environment = std::vector<std::string>(),
                        .stdoutFd = writer.get()});
    writer.reset();
    std::string answer;
    if (!readToEnd({{reader.get(), appendTo(answer, largestAnswer)}}, patience)) {
        throw Error(cat(*program, " did not answer within ", patience.count(), " s"));
    }
    child.wait();
    return answer;
}

std::optional<PasswdEntry> findAccount(uid_t uid, std::string_view searchPath) {
    const auto account = findPasswdEntry(readPasswdFile("/etc/passwd"), uid);
    return account ? account : findPasswdEntry(askNameService("passwd", {cat(uid)}, searchPath), uid);
}

std::optional<std::string> findAccountName(const std::string& cache, uid_t uid) {
    if (auto name = findUserName(readPasswdFile(cache), uid)) {
        return name;
    }
    const auto account = findAccount(uid);
    return account ? std::optional(account->name) : std::nullopt;
}

}  // namespace sarus
