#include "cli/doctor/hook_check.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/config_files.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/pipe.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "engine/hook_report.hpp"
#include "hook_contracts/shipped_hooks.hpp"

namespace sarus::cli {

namespace {

constexpr std::chrono::seconds deadline{30};
constexpr std::size_t maxOutput = 64U << 10U;

/// The mistakes of one hook, and what could not be checked. One line each.
struct HookCheck {
    std::vector<std::string> problems;
    std::vector<std::string> notes;
};

bool isSameFile(const std::string& a, const std::string& b) {
    struct stat first {};
    struct stat second {};
    return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

bool isShipped(const std::string& path, const std::string& programs) {
    const auto* const hook = hook_contracts::findShippedHook(path);
    return hook != nullptr && isSameFile(path, cat(programs, '/', hook->program));
}

void runOwnCheck(const oci::HookConfig& hook, HookCheck& check) {
    auto [reader, writer] = makePipe();
    Command command{.path = hook.hook.path, .args = hook.hook.args, .environment = hook.hook.env};
    if (command.args.empty()) {
        command.args.push_back(hook.hook.path);
    }
    command.args.emplace_back("--check");
    command.stdoutFd = writer.get();
    command.stderrFd = writer.get();
    auto child = start(command);  // its end ends the process, too
    writer.reset();
    std::string text;
    if (!readToEnd({{reader.get(), appendTo(text, maxOutput)}}, deadline)) {
        check.problems.push_back(
            cat(printable(hook.hook.path), " --check did not end within ", deadline.count(), " s"));
        return;
    }
    const auto status = child.wait();
    for (const auto& line : split(text, '\n')) {
        if (line.starts_with("note: ")) {
            check.notes.push_back(printable(line));
        } else if (!line.empty() && !status.ok()) {
            check.problems.push_back(printable(line));
        }
    }
    if (!status.ok() && check.problems.empty()) {
        check.problems.push_back(
            cat(printable(hook.hook.path), " --check failed with status ", status.shellStatus()));
    }
}

/// Checks whether the hook's program can be run. If it belongs to the package, also its stages and itself.
HookCheck checkHookProgram(const oci::HookConfig& hook, const std::string& programs) {
    HookCheck check;
    const auto& path = hook.hook.path;
    const bool inContainer = hook.stages == std::vector<std::string>{"startContainer"};
    if (!inContainer && ::access(path.c_str(), X_OK) != 0) {
        check.problems.push_back(
            cat("the program ", printable(path), " cannot be run: ", std::strerror(errno)));
        return check;
    }
    if (!isShipped(path, programs)) {
        return check;
    }
    for (const auto& stage : hook.stages) {
        if (const auto reason = hook_contracts::explainUnsupportedStage(path, stage)) {
            check.problems.push_back(*reason);
        }
    }
    try {
        runOwnCheck(hook, check);
    } catch (const Error& error) {
        check.problems.emplace_back(error.what());
    }
    return check;
}

/// The remarks about one hook file, its mistakes first.
std::vector<HookRemark> checkHook(int directory, const std::string& file, const std::string& programs,
                                  std::vector<oci::HookConfig>& readable) {
    std::vector<HookRemark> remarks;
    const auto add = [&](bool isMistake, const std::vector<std::string>& lines) {
        for (const auto& line : lines) {
            remarks.push_back({isMistake, cat(printable(file), ": ", line)});
        }
    };
    try {
        auto hook = oci::parseHookConfig(readCheckedFile(directory, file), file);
        const auto check = checkHookProgram(hook, programs);
        add(true, engine::suspiciousConditions(hook));
        add(true, check.problems);
        add(false, check.notes);
        readable.push_back(std::move(hook));
    } catch (const Error& error) {
        remarks.push_back({true, error.what()});
    }
    return remarks;
}

bool isMistake(const HookRemark& remark) {
    return remark.isMistake;
}

}  // namespace

bool HookReport::areThereMistakes() const {
    return std::any_of(remarks.begin(), remarks.end(), isMistake);
}

HookReport checkHookFiles(const std::string& directory, const std::string& programs) {
    const auto opened = openFile(directory, O_PATH | O_DIRECTORY);
    HookReport report;
    const auto files = listFiles(opened.get(), directory, {".json"});
    report.files = files.size();
    for (const auto& file : files) {
        const auto remarks = checkHook(opened.get(), file, programs, report.readable);
        report.intact += std::none_of(remarks.begin(), remarks.end(), isMistake) ? 1U : 0U;
        report.remarks.insert(report.remarks.end(), remarks.begin(), remarks.end());
    }
    for (const auto& lines : {engine::wrongOrder(report.readable), engine::secondSshHooks(report.readable)}) {
        for (const auto& line : lines) {
            report.remarks.push_back({true, line});
        }
    }
    return report;
}

}  // namespace sarus::cli
