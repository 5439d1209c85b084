#include "doctor/examination.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/pipe.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "base/time_left.hpp"

namespace sarus::doctor {

namespace {

using Grade = Finding::Grade;
using Clock = std::chrono::steady_clock;

constexpr std::size_t maxOutput = 4U << 20U;
constexpr std::size_t fieldsOfFinding = 4;

std::vector<Finding> carryOut(const Check& check) {
    std::vector<Finding> findings;
    try {
        findings = check.run();
    } catch (const Error& failure) {
        findings = {error(failure.what(), failure.hint())};
    }
    for (auto& finding : findings) {
        finding.check = finding.check.empty() ? check.name : finding.check;
    }
    return findings;
}

/// Four fields a finding, each with a NUL at its end.
std::string serialize(const std::vector<Finding>& findings) {
    std::string out;
    for (const auto& finding : findings) {
        for (const auto& field :
             {finding.check, cat(static_cast<int>(finding.grade)), finding.message, finding.cure}) {
            out += field.substr(0, field.find('\0'));
            out += '\0';
        }
    }
    return out;
}

std::vector<Finding> parse(std::string_view text) {
    const auto fields = split(text, '\0');
    std::vector<Finding> findings;
    for (std::size_t i = 0; i + fieldsOfFinding < fields.size(); i += fieldsOfFinding) {
        findings.push_back({fields[i], static_cast<Grade>(parseNumber(fields[i + 1]).value_or(0)),
                            fields[i + 2], fields[i + 3]});
    }
    return findings;
}

struct Running {
    pid_t pid;
    UniqueFd reader;
};

Running launch(const Check& check) {
    auto [reader, writer] = makePipe();
    const auto parent = ::getpid();
    const auto pid = checkErrno(::fork(), "Failed to start a check");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        int status = ::getppid() == parent ? 0 : 1;
        try {
            reader.reset();
            writeAll(writer.get(), serialize(carryOut(check)), "the findings");
        } catch (const std::exception&) {
            status = 1;  // reported by the parent
        }
        ::_exit(status);
    }
    return {pid, std::move(reader)};
}

std::vector<Finding> collect(const Check& check, const Running& running, Clock::time_point begin) {
    std::string text;
    const std::chrono::milliseconds left(millisecondsUntil(begin + check.patience));
    if (!readToEnd({{running.reader.get(), appendTo(text, maxOutput)}},
                   std::max(left, std::chrono::milliseconds(1)))) {
        ::kill(running.pid, SIGKILL);  // not awaited: a dead file server may keep it for longer
        return {{check.name, check.asksNetwork ? Grade::warning : Grade::error,
                 cat("no answer within ", check.patience.count(), " s"),
                 check.asksNetwork
                     ? "Try again later; --local asks no other machines"
                     : "Look for a file server that does not answer: findmnt, sudo dmesg | tail"}};
    }
    Child child(running.pid);
    if (const auto status = child.wait(); !status.ok()) {
        return {{check.name, Grade::error, cat("the check failed with status ", status.shellStatus()),
                 "Report this as a bug"}};
    }
    return parse(text);
}

}  // namespace

std::vector<Finding> examine(const std::vector<Check>& checks) {
    const auto begin = Clock::now();
    std::vector<Running> running;
    for (const auto& check : checks) {
        running.push_back(launch(check));
    }
    std::vector<Finding> all;
    for (std::size_t i = 0; i < checks.size(); ++i) {
        const auto found = collect(checks[i], running[i], begin);
        all.insert(all.end(), found.begin(), found.end());
    }
    return all;
}

}  // namespace sarus::doctor
