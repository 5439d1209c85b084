#include "oci/runtime/mount_request.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "base/boolean.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci {

namespace {

Error invalid(std::string_view request, std::string_view why) {
    return Error(cat("Invalid mount request '", printable(request), "': ", why));
}

constexpr std::array<std::string_view, 2> sourceKeys{"source", "src"};
constexpr std::array<std::string_view, 3> destinationKeys{"destination", "dst", "target"};

bool contains(std::span<const std::string_view> list, std::string_view word) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

/// "512m" in bytes; nullopt for anything else, also for 0.
std::optional<std::uint64_t> parseSize(std::string_view text) {
    unsigned shift = 0;
    if (!text.empty()) {
        const auto unit = std::string_view("kmg").find(static_cast<char>(text.back() | 0x20));
        if (unit != std::string_view::npos) {
            shift = 10U * (static_cast<unsigned>(unit) + 1U);
            text.remove_suffix(1);
        }
    }
    const auto number = parseNumber(text);
    if (!number || *number == 0 ||
        *number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) >> shift) {
        return std::nullopt;
    }
    return *number << shift;
}

using Options = std::map<std::string, std::string, std::less<>>;

Error unparsable(std::string_view request, std::string_view why) {
    return Error(cat("Error parsing '", printable(request), "'. ", why));
}

/// The fields of a record of CSV. A quote inside of an unquoted field is a part of it.
std::vector<std::string> splitFields(std::string_view record) {
    std::vector<std::string> fields(1);
    for (auto rest = record; !rest.empty();) {
        if (rest.front() == ',') {
            fields.emplace_back();
            rest.remove_prefix(1);
            continue;
        }
        if (rest.front() != '"') {
            const auto size = std::min(rest.find(','), rest.size());
            fields.back() = rest.substr(0, size);
            rest.remove_prefix(size);
            continue;
        }
        for (std::string_view between; rest.starts_with('"'); between = "\"") {  // two quotes stand for one
            const auto end = rest.find('"', 1);
            if (end == std::string_view::npos) {
                throw unparsable(record, "The closing quote is missing");
            }
            fields.back() += cat(between, rest.substr(1, end - 1));
            rest.remove_prefix(end + 1);
        }
        if (!rest.empty() && rest.front() != ',') {
            throw unparsable(record, "Expected ',' after the closing quote");
        }
    }
    return fields;
}

Options parseOptions(std::string_view request) {
    if (request.find('\0') != std::string_view::npos) {
        throw unparsable(request, "It holds a NUL character");
    }
    Options options;
    for (const auto& pair : splitFields(request)) {
        const auto separator = std::min(pair.find('='), pair.size());
        const auto key = pair.substr(0, separator);
        const auto value = pair.substr(std::min(separator + 1, pair.size()));
        if (key.empty()) {
            throw unparsable(request, "Expected a non-empty key");
        }
        if (value.find('=') != std::string::npos && !contains(sourceKeys, key) &&
            !contains(destinationKeys, key)) {
            throw unparsable(request, cat("The value of key '", printable(key), "' must not contain '='"));
        }
        if (!options.emplace(key, value).second) {
            throw unparsable(request, cat("Found duplicate key '", printable(key), "'"));
        }
    }
    return options;
}

/// Returns the value of the only alias that was given.
std::string readPath(const Options& options, std::span<const std::string_view> aliases,
                     std::string_view request) {
    const std::string* path = nullptr;
    std::string_view used;
    for (const auto alias : aliases) {
        const auto found = options.find(alias);
        if (found == options.end()) {
            continue;
        }
        if (path != nullptr) {
            throw invalid(request, cat("'", used, "' and '", alias, "' cannot be used together"));
        }
        path = &found->second;
        used = alias;
    }
    if (path == nullptr) {
        throw invalid(request, cat("no ", aliases.front(), " specified"));
    }
    if (path->empty()) {
        throw invalid(request, cat("the value of '", used, "' is empty"));
    }
    return *path;
}

void checkKeys(const Options& options, std::span<const std::string_view> own, std::string_view kind,
               std::string_view request) {
    for (const auto& [key, value] : options) {
        if (key != "type" && !contains(own, key) && !contains(destinationKeys, key)) {
            throw invalid(request, cat("'", printable(key), "' is not a valid ", kind, " option"))
                .setHint(
                    "If a path contains a comma, put quotes around its key and value: '\"source=/a,b\"'");
        }
    }
}

std::uint64_t readSize(const std::string& size, std::string_view request) {
    const auto bytes = parseSize(size);
    if (!bytes) {
        throw invalid(request, cat("'", printable(size), "' is not a size"))
            .setHint("Write a number of bytes, or one with k, m or g: size=512m");
    }
    return *bytes;
}

constexpr std::string_view isReadOnly = "cannot be: a squashfs file is read-only";

std::uint64_t readMode(const std::string& text, std::string_view request) {
    constexpr std::uint64_t all = 01777;
    std::uint64_t mode = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
    if (error != std::errc() || end != text.data() + text.size() || mode > all) {
        throw invalid(request, cat("'", printable(text), "' is not a mode"))
            .setHint("Write permissions in octal digits, at most 1777: mode=0700");
    }
    return mode;
}

/// nullopt: of any kind, because the destination is made as the source is.
std::optional<bool> readCreate(std::string_view kind, std::string_view request) {
    if (kind != "dir" && kind != "file" && kind != "auto") {
        throw invalid(request, cat("'", printable(kind), "' is not a value of 'x-create'"))
            .setHint("Write x-create=dir, x-create=file or x-create=auto");
    }
    return kind == "auto" ? std::nullopt : std::optional(kind == "dir");
}

MountRequest readTmpfs(const Options& options, std::string_view request) {
    static constexpr std::array<std::string_view, 2> own{"size", "mode"};
    checkKeys(options, own, "tmpfs mount", request);
    MountRequest tmpfs{.destination = readPath(options, destinationKeys, request), .tmpfsSize = 0};
    if (const auto size = options.find("size"); size != options.end()) {
        tmpfs.tmpfsSize = readSize(size->second, request);
    }
    if (const auto mode = options.find("mode"); mode != options.end()) {
        tmpfs.tmpfsMode = readMode(mode->second, request);
    }
    return tmpfs;
}

MountRequest readUnmount(const Options& options, std::string_view request) {
    checkKeys(options, {}, "umount", request);
    return {.destination = readPath(options, destinationKeys, request), .isUnmount = true};
}

MountRequest readBind(const Options& options, bool isSquashfs, std::string_view request) {
    static constexpr std::array<std::string_view, 6> own{"source", "src", "readonly", "ro", "rw", "x-create"};
    checkKeys(options, own, isSquashfs ? "squashfs mount" : "bind mount", request);
    const auto flag = [&](std::string_view key) -> std::optional<bool> {
        const auto found = options.find(key);
        if (found == options.end()) {
            return std::nullopt;
        }
        const auto value = found->second.empty() ? std::optional(true) : parseBoolean(found->second);
        if (!value) {
            throw invalid(request, cat("'", printable(found->second), "' is not a value of '", key, "'"))
                .setHint(cat("Write ", key, ", or ", key, "=true or ", key, "=false"));
        }
        return value;
    };
    const auto rw = flag("rw");
    const std::array readonlyFlags{flag("readonly"), flag("ro")};
    const bool readonly = !rw.value_or(true) || std::any_of(readonlyFlags.begin(), readonlyFlags.end(),
                                                            [](auto one) { return one.value_or(false); });
    if (readonly && rw.value_or(false)) {
        throw invalid(request, "'rw' and 'readonly' cannot be used together");
    }
    if (isSquashfs && rw.value_or(false)) {
        throw invalid(request, cat("'rw' ", isReadOnly));
    }
    const auto create = options.find("x-create");
    return {.source = readPath(options, sourceKeys, request),
            .destination = readPath(options, destinationKeys, request),
            .readonly = readonly || isSquashfs,
            .isSquashfs = isSquashfs,
            .mustBeDirectory = create == options.end() ? std::nullopt : readCreate(create->second, request)};
}

constexpr std::string_view squashfsFlag = "sqsh";
constexpr std::string_view tmpfsSource = "tmpfs";
constexpr std::string_view unmountSource = "umount";
constexpr std::string_view special = ":,\\";  ///< what a backslash may precede in a volume

std::size_t findSeparator(std::string_view text, char separator, std::size_t from) {
    while (from < text.size() && text[from] != separator) {
        from += text[from] == '\\' ? 2 : 1;
    }
    return from < text.size() ? from : std::string_view::npos;
}

std::string withoutBackslashes(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool escapes = text[i] == '\\' && i + 1 < text.size() && special.find(text[i + 1]) != text.npos;
        i += escapes ? 1 : 0;
        plain += text[i];
    }
    return plain;
}

/// The parts of a volume, without their backslashes.
std::vector<std::string> splitVolume(std::string_view text) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const auto end = std::min(findSeparator(text, ':', begin), text.size());
        parts.push_back(withoutBackslashes(text.substr(begin, end - begin)));
        begin = end + 1;
    }
    return parts;
}

bool startsVolume(std::string_view text) {
    const auto directory = text.substr(0, text.find_first_of("/:,"));
    const auto word = text.substr(0, text.find(':') + 1);
    return text.empty() || text.starts_with('/') || directory == "." || directory == ".." ||
           word == cat(tmpfsSource, ':') || word == cat(unmountSource, ':');
}

/// Throws Error for a flag that asks for something else than every mount of a user has: recursive, private,
/// without set-id programs, devices, labels, another owner and caches.
bool isReadonlyFlag(std::string_view flag, std::string_view where) {
    constexpr std::array<std::string_view, 22> harmless{
        "",       "rw",      "bind",   "rbind",      "private",     "rprivate",  "slave", "rslave",
        "shared", "rshared", "nosuid", "unbindable", "runbindable", "nodev",     "exec",  "noexec",
        "z",      "Z",       "U",      "cached",     "delegated",   "consistent"};
    const bool readonly = flag == "ro" || flag == "readonly";
    if (!readonly && !contains(harmless, flag)) {
        throw Error(cat(where, ": the mount flag '", printable(flag), "' is not supported"),
                    "The flags are ro, rw and sqsh; also x-create=dir|file|auto, and of tmpfs size=SIZE and "
                    "mode=MODE. Write \\: for a colon in a path");
    }
    return readonly;
}

/// The words of the flags behind the destination, of which there may be none.
std::vector<std::string> splitFlags(std::string flags) {
    std::replace(flags.begin(), flags.end(), '+', ',');
    return split(flags, ',');
}

/// What follows `prefix`; nullopt for another word.
std::optional<std::string> valueAfter(std::string_view word, std::string_view prefix) {
    return word.starts_with(prefix) ? std::optional(std::string(word.substr(prefix.size()))) : std::nullopt;
}

MountRequest parseTmpfsParts(std::string destination, std::string flags, std::string_view text,
                             std::string_view where) {
    MountRequest tmpfs{.destination = std::move(destination), .tmpfsSize = 0, .text = std::string(text)};
    for (const auto& word : splitFlags(std::move(flags))) {
        if (const auto size = valueAfter(word, "size=")) {
            tmpfs.tmpfsSize = readSize(*size, text);
        } else if (const auto mode = valueAfter(word, "mode=")) {
            tmpfs.tmpfsMode = readMode(*mode, text);
        } else if (isReadonlyFlag(word, where)) {
            throw Error(cat(where, ": a memory file system cannot be read-only: it would stay empty"));
        }
    }
    checkMountRequest(tmpfs);
    return tmpfs;
}

/// What another word than a path stands for at the place of the source; nullopt for a path.
std::optional<MountRequest> parseOtherSource(std::vector<std::string>& parts, std::string_view text,
                                             std::string_view where) {
    const bool isUnmount = parts[0] == unmountSource;
    if (parts.size() < 2 || (parts[0] != tmpfsSource && !isUnmount)) {
        return std::nullopt;
    }
    auto flags = parts.size() == 3 ? std::move(parts[2]) : std::string();
    if (!isUnmount) {
        return parseTmpfsParts(std::move(parts[1]), std::move(flags), text, where);
    }
    if (!flags.empty()) {
        throw Error(cat(where, ": 'umount:DESTINATION' has no flags, found '", printable(flags), "'"));
    }
    MountRequest unmount{.destination = std::move(parts[1]), .isUnmount = true, .text = std::string(text)};
    checkMountRequest(unmount);
    return unmount;
}

}  // namespace

MountRequest parseMountRequest(std::string_view request) {
    if (request.empty()) {
        throw Error("Invalid mount request: no values provided");
    }
    const auto options = parseOptions(request);
    const auto type = options.find("type");
    if (type == options.end()) {
        throw invalid(request, "'type' must be specified");
    }
    const bool isSquashfs = type->second == "squashfs";
    if (type->second != "bind" && type->second != tmpfsSource && type->second != unmountSource &&
        !isSquashfs) {
        throw invalid(request, cat("'", printable(type->second), "' is not a valid mount type"));
    }
    auto mount = type->second == tmpfsSource     ? readTmpfs(options, request)
                 : type->second == unmountSource ? readUnmount(options, request)
                                                 : readBind(options, isSquashfs, request);
    mount.text = request;
    checkMountRequest(mount);
    return mount;
}

MountRequest parseVolume(std::string_view text, std::string_view where, std::string_view workingDirectory) {
    auto parts = splitVolume(text);
    if (parts.size() > 3 || parts[0].empty() || (parts.size() > 1 && parts[1].empty())) {
        throw Error(cat(where, ": expected SOURCE:DESTINATION[:FLAGS], found '", printable(text), "'"),
                    parts.size() > 3 ? "Write \\: for a colon in a path" : "");
    }
    if (auto other = parseOtherSource(parts, text, where)) {
        return std::move(*other);
    }
    auto words = splitFlags(parts.size() == 3 ? std::move(parts[2]) : "rw");
    std::replace(words.begin(), words.end(), std::string("image-src=/"),
                 std::string(squashfsFlag));  // Apptainer
    MountRequest mount{.source = std::move(parts[0]), .text = std::string(text)};
    mount.isSquashfs = std::find(words.begin(), words.end(), squashfsFlag) != words.end();
    mount.readonly = mount.isSquashfs;
    for (const auto& flag : words) {
        if (const auto create = valueAfter(flag, "x-create=")) {
            mount.mustBeDirectory = readCreate(*create, text);
            continue;
        }
        mount.readonly = (flag != squashfsFlag && isReadonlyFlag(flag, where)) || mount.readonly;
        if (mount.isSquashfs && flag == "rw") {
            throw Error(cat(where, ": 'rw' ", isReadOnly));
        }
    }
    if (!mount.source.starts_with('/') && !mount.source.starts_with('.')) {
        throw Error(cat(where, ": the source '", printable(mount.source), "' must begin with '/' or '.'"));
    }
    const bool isRelative = mount.source.starts_with('.');
    if (isRelative && workingDirectory.empty()) {
        throw Error(cat(where, ": the source '", printable(mount.source),
                        "' begins at the working directory, which does not exist any more"));
    }
    if (isRelative) {
        mount.source = cat(workingDirectory, '/', mount.source);
    }
    mount.destination = parts.size() > 1 ? std::move(parts[1])
                        : isRelative     ? normalizePath(mount.source)
                                         : mount.source;
    try {
        checkMountRequest(mount);
    } catch (const Error& error) {
        throw Error(cat(where, ": ", error.what()), cat(error.hint(), ". Write \\: for a colon in a path"));
    }
    return mount;
}

std::vector<std::string> splitVolumes(std::string_view text) {
    std::vector<std::string> volumes;
    for (std::size_t begin = 0, comma = 0; comma != std::string_view::npos;) {
        comma = findSeparator(text, ',', comma);
        if (comma == std::string_view::npos || startsVolume(text.substr(comma + 1))) {
            volumes.emplace_back(text.substr(begin, comma - begin));
            begin = comma + 1;
        }
        comma += comma == std::string_view::npos ? 0 : 1;
    }
    return volumes;
}

std::string volumeWord(std::string_view path) {
    std::string word;
    for (const char c : path) {
        word += special.find(c) == std::string_view::npos ? std::string(1, c) : cat('\\', c);
    }
    return word;
}

MountRequest parseTmpfs(std::string_view text) {
    auto parts = splitVolume(text);
    if (parts.size() > 2) {
        throw Error(
            cat("Invalid value '", printable(text), "' of --tmpfs: expected DESTINATION[:size=SIZE]"));
    }
    parts.resize(2);
    return parseTmpfsParts(std::move(parts[0]), std::move(parts[1]), text, "--tmpfs");
}

MountRequest mountInPlace(std::string_view path) {
    return {.source = std::string(path), .destination = std::string(path), .text = std::string(path)};
}

void checkMountRequest(const MountRequest& mount) {
    const auto check = [&](std::string_view key, std::string_view path) {
        if (!path.starts_with('/')) {
            throw invalid(mount.text, cat(key, " must be an absolute path"))
                .setHint(cat("'", printable(path), "' does not begin with '/'"));
        }
    };
    if (!mount.tmpfsSize && !mount.isUnmount) {
        check("source", mount.source);
    }
    check("destination", mount.destination);
}

std::string toText(const MountRequest& mount) {
    const auto field = [](std::string_view key, std::string_view path) {
        if (path.find_first_of(",\"") == std::string_view::npos) {
            return cat(key, path);
        }
        auto quoted = cat('"', key);
        for (const char c : path) {
            quoted += c == '"' ? "\"\"" : std::string(1, c);
        }
        return quoted + '"';
    };
    const auto destination = field("destination=", mount.destination);
    if (mount.isUnmount) {
        return cat("type=umount,", destination);
    }
    if (mount.tmpfsSize) {
        const auto size = *mount.tmpfsSize > 0 ? cat(",size=", *mount.tmpfsSize) : std::string();
        return cat("type=tmpfs,", destination, size,
                   mount.tmpfsMode ? cat(",mode=", formatOctal(*mount.tmpfsMode)) : std::string());
    }
    const auto create = !mount.mustBeDirectory   ? ""
                        : *mount.mustBeDirectory ? ",x-create=dir"
                                                 : ",x-create=file";
    return cat(mount.isSquashfs ? "type=squashfs," : "type=bind,", field("source=", mount.source), ",",
               destination, mount.readonly && !mount.isSquashfs ? ",readonly" : "", create);
}

}  // namespace sarus::oci
