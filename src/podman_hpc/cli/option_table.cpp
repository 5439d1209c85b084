#include "podman_hpc/cli/option_table.hpp"

#include "base/text.hpp"
#include "podman_hpc/cli/call.hpp"

namespace sarus::podman_hpc {

namespace {

/// Names separated by blanks; "x:name" has the short name x.
void addOptions(OptionTable& table, std::string_view names, bool takeValues) {
    for (std::string_view name : splitWords(names)) {
        if (name.size() > 2 && name[1] == ':') {
            table.shortNames[name[0]] = takeValues;
            name.remove_prefix(2);
        }
        table.longNames.emplace(name, takeValues);
    }
}

OptionTable makeTable(std::string_view withValue, std::string_view flags) {
    OptionTable table;
    addOptions(table, withValue, true);
    addOptions(table, flags, false);
    return table;
}

/// Podman accepts the long names of its global options behind the command, too.
OptionTable withGlobalOptions(OptionTable table) {
    table.longNames.insert(globalOptions().longNames.begin(), globalOptions().longNames.end());
    return table;
}

}  // namespace

const OptionTable& runOptions() {
    static const auto table = withGlobalOptions(makeTable(
        "add-host annotation arch a:attach authfile blkio-weight blkio-weight-device cap-add cap-drop "
        "cgroup-conf cgroup-parent cgroupns cgroups chrootdirs cidfile conmon-pidfile cpu-period "
        "cpu-quota cpu-rt-period cpu-rt-runtime c:cpu-shares cpus cpuset-cpus cpuset-mems detach-keys "
        "device device-cgroup-rule device-read-bps device-read-iops device-write-bps "
        "device-write-iops dns dns-option dns-search entrypoint e:env env-file env-merge expose "
        "gidmap group-add health-cmd health-interval health-on-failure health-retries "
        "health-start-period health-timeout h:hostname hostuser image-volume init-path ip ip6 ipc "
        "l:label label-file log-driver log-opt mac-address m:memory memory-reservation memory-swap "
        "memory-swappiness mount name network network-alias oom-score-adj os passwd-entry personality "
        "pid pidfile pids-limit platform pod pod-id-file preserve-fds p:publish pull requires restart "
        "sdnotify seccomp-policy secret security-opt shm-size stop-signal stop-timeout subgidname "
        "init-ctr healthcheck-command healthcheck-interval healthcheck-retries healthcheck-start-period "
        "healthcheck-timeout net override-arch override-os override-variant signature-policy gpus "
        "subuidname sysctl systemd timeout tmpfs tz uidmap ulimit umask unsetenv u:user userns uts "
        "variant v:volume volumes-from w:workdir ",
        "d:detach disable-content-trust env-host help http-proxy init i:interactive no-healthcheck "
        "no-hosts oom-kill-disable passwd privileged P:publish-all q:quiet read-only read-only-tmpfs "
        "replace rm rmi rootfs sig-proxy tls-verify t:tty unsetenv-all "));
    return table;
}

const OptionTable& execOptions() {
    static const auto table =
        withGlobalOptions(makeTable("detach-keys e:env env-file preserve-fds u:user w:workdir ",
                                    "d:detach i:interactive l:latest privileged t:tty "));
    return table;
}

const OptionTable& globalOptions() {
    static const auto table = makeTable(
        "cgroup-manager conmon c:connection events-backend hooks-dir identity log-level namespace "
        "network-cmd-path network-config-dir root runroot runtime runtime-flag ssh storage-driver "
        "storage-opt tmpdir url volumepath ",
        "help noout r:remote syslog v:version ");
    return table;
}

OptionTable parseHelpPage(std::string_view page) {
    OptionTable table;
    for (const auto& line : split(page, '\n')) {
        auto rest = trim(line);
        char shortName = '\0';
        if (rest.size() > 4 && rest[0] == '-' && rest[1] != '-' && rest.substr(2, 2) == ", ") {
            shortName = rest[1];
            rest.remove_prefix(4);
        }
        if (!rest.starts_with("--")) {
            continue;
        }
        rest.remove_prefix(2);
        const auto end =
            rest.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
        const auto name = rest.substr(0, end);
        // "--name TYPE   text", "--flag   text" or, with a value only behind '=', "--name string[="x"] text"
        const auto after = end == std::string_view::npos ? std::string_view() : rest.substr(end);
        const bool takesValue = after.size() > 1 && after[0] == ' ' && after[1] != ' ' &&
                                after.substr(0, after.find("  ")).find("[=") == std::string_view::npos;
        table.longNames.emplace(name, takesValue);
        if (shortName != '\0') {
            table.shortNames.emplace(shortName, takesValue);
        }
    }
    return table;
}

namespace {

/// Whether the value of the last letter in `-abc` is the next word.
bool shortNamesTakeNextWord(std::string_view letters, const OptionTable& known) {
    for (std::size_t i = 0; i < letters.size(); ++i) {
        const auto found = known.shortNames.find(letters[i]);
        if (found != known.shortNames.end() && found->second) {
            return i + 1 == letters.size();
        }
    }
    return false;
}

bool longNameTakesNextWord(std::string_view name, const OptionTable& known,
                           const std::function<const OptionTable&()>& lookUp) {
    auto found = known.longNames.find(name);
    if (found == known.longNames.end()) {
        const auto& own = lookUp();
        found = own.longNames.find(name);
        return found != own.longNames.end() && found->second;
    }
    return found->second;
}

}  // namespace

ScannedWords scanOptions(const std::vector<std::string>& words, const OptionTable& known,
                         const std::function<const OptionTable&()>& lookUp,
                         const std::set<std::string>& moduleFlags) {
    ScannedWords result;
    std::size_t i = 0;
    for (; i < words.size(); ++i) {
        const std::string_view word = words[i];
        if (word == "--" || word == "-" || !word.starts_with('-')) {
            break;
        }
        const bool isLong = word.starts_with("--");
        const auto name = word.substr(isLong ? 2 : 1);
        if (isLong && moduleFlags.contains(std::string(name))) {
            result.flags.emplace(name);
            continue;
        }
        if (const auto equals = name.find('='); isLong && equals != std::string_view::npos) {
            const std::string flag(name.substr(0, equals));
            if (moduleFlags.contains(flag)) {
                throw usageError(cat("Option '--", flag, "' does not take a value."),
                                 "run [options] IMAGE [COMMAND [ARG...]]");
            }
            result.words.emplace_back(word);
            result.options.push_back({words[i]});
            continue;
        }
        result.words.emplace_back(word);
        result.options.push_back({words[i]});
        result.help = result.help || word == "--help";
        const bool takesNext =
            isLong ? longNameTakesNextWord(name, known, lookUp) : shortNamesTakeNextWord(name, known);
        if (takesNext && i + 1 < words.size()) {
            result.words.push_back(words[++i]);
            result.options.back().push_back(words[i]);
        }
    }
    result.complete = i + (i < words.size() && words[i] == "--" ? 1 : 0) < words.size();
    result.words.insert(result.words.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
    return result;
}

std::vector<TypedOption> separateOptions(const std::vector<std::string>& words, const OptionTable& known) {
    const auto& word = words.front();
    const auto next = words.size() > 1 ? std::optional(words[1]) : std::nullopt;
    if (word.starts_with("--")) {
        const auto equals = word.find('=');
        return {{word.substr(2, equals == std::string::npos ? equals : equals - 2),
                 equals == std::string::npos ? next : std::optional(word.substr(equals + 1)), words}};
    }
    std::vector<TypedOption> options;
    for (std::size_t i = 1; i < word.size(); ++i) {
        const std::string name(1, word[i]);
        const auto found = known.shortNames.find(word[i]);
        if (found == known.shortNames.end() || !found->second) {
            options.push_back({name, std::nullopt, {cat('-', name)}});
            continue;
        }
        auto rest = word.substr(i + 1);
        if (rest.empty()) {
            options.push_back({name, next, {cat('-', name)}});
            if (next) {
                options.back().words.push_back(*next);
            }
        } else {
            options.push_back({name, rest.starts_with('=') ? rest.substr(1) : rest, {cat('-', name, rest)}});
        }
        break;
    }
    return options;
}

}  // namespace sarus::podman_hpc
