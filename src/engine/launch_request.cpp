#include "engine/launch_request.hpp"

#include <concepts>
#include <limits>
#include <map>
#include <type_traits>

#include "base/error.hpp"
#include "base/text.hpp"

// The form: magic and version, then the fields in the order of `transfer`. Numbers are little-endian; a string is a 32-bit
// length and its bytes; a list is a 32-bit count and its elements; an optional is a byte 0 or 1 and the value.

namespace sarus::engine {

namespace {

constexpr std::string_view magic = "SARUSREQ";
constexpr std::uint32_t protocolVersion = 1;

class Writer {
public:
    void field(std::uint32_t number) {
        for (int shift = 0; shift < 32; shift += 8) {
            out += static_cast<char>(static_cast<unsigned char>(number >> shift));
        }
    }
    void field(std::same_as<bool> auto flag) { out += flag ? '\1' : '\0'; }
    void field(std::uint64_t number) {
        field(static_cast<std::uint32_t>(number));
        field(static_cast<std::uint32_t>(number >> 32U));
    }
    void field(int number) { field(static_cast<std::uint32_t>(number)); }
    void field(LogLevel level) { field(static_cast<std::uint32_t>(level)); }

    void field(const std::string& text) {
        if (text.size() > maxLaunchRequestStringLength) {
            throw Error(cat("A value of ", text.size(), " bytes is too long to be passed to the container: '",
                            printable(std::string_view(text).substr(0, 40)), "...'"));
        }
        field(static_cast<std::uint32_t>(text.size()));
        out += text;
    }

    template <typename Value>
    void field(const std::optional<Value>& value) {
        field(value.has_value());
        if (value) {
            field(*value);
        }
    }

    void field(const std::vector<std::string>& list) {
        writeCount(list.size());
        for (const auto& element : list) {
            field(element);
        }
    }

    void field(const std::map<std::string, std::string>& map) {
        writeCount(map.size());
        for (const auto& [key, value] : map) {
            field(key);
            field(value);
        }
    }

    std::string out;

private:
    void writeCount(std::size_t count) {
        if (count > maxLaunchRequestListLength) {
            throw Error(cat("A list of ", count, " values is too long to be passed to the container"));
        }
        field(static_cast<std::uint32_t>(count));
    }
};

class Reader {
public:
    explicit Reader(std::string_view bytes) : rest(bytes) {}

    std::string_view take(std::size_t count) {
        if (count > rest.size()) {
            throw Error("Invalid launch request: it is truncated");
        }
        const auto taken = rest.substr(0, count);
        rest.remove_prefix(count);
        return taken;
    }

    void field(std::uint32_t& number) {
        number = 0;
        int shift = 0;
        for (const char byte : take(4)) {
            number |= static_cast<std::uint32_t>(static_cast<unsigned char>(byte)) << shift;
            shift += 8;
        }
    }

    void field(std::uint64_t& number) {
        std::uint32_t low = 0;
        std::uint32_t high = 0;
        field(low);
        field(high);
        number = std::uint64_t{high} << 32U | low;
    }

    void field(std::same_as<bool> auto& flag) {
        const char byte = take(1)[0];
        if (byte != '\0' && byte != '\1') {
            throw Error("Invalid launch request: a flag is neither 0 nor 1");
        }
        flag = byte == '\1';
    }

    void field(int& number) {
        std::uint32_t bits = 0;
        field(bits);
        number = static_cast<int>(bits);
    }

    void field(LogLevel& level) {
        std::uint32_t number = 0;
        field(number);
        if (number > static_cast<std::uint32_t>(LogLevel::general)) {
            throw Error("Invalid launch request: unknown log level");
        }
        level = static_cast<LogLevel>(number);
    }

    void field(std::string& text) {
        std::uint32_t length = 0;
        field(length);
        if (length > maxLaunchRequestStringLength) {
            throw Error("Invalid launch request: a string is too long");
        }
        text = take(length);
        if (text.find('\0') != std::string::npos) {
            throw Error("Invalid launch request: a string holds a NUL character");
        }
    }

    template <typename Value>
    void field(std::optional<Value>& value) {
        bool present = false;
        field(present);
        value.reset();
        if (present) {
            field(value.emplace());
        }
    }

    void field(std::vector<std::string>& list) {
        const auto count = readCount();
        list.clear();
        for (std::uint32_t i = 0; i < count; ++i) {
            field(list.emplace_back());
        }
    }

    /// Keys must ascend, as they were written: one request has one form.
    void field(std::map<std::string, std::string>& map) {
        const auto count = readCount();
        map.clear();
        for (std::uint32_t i = 0; i < count; ++i) {
            std::string key;
            field(key);
            if (!map.empty() && key <= map.rbegin()->first) {
                throw Error("Invalid launch request: the keys of a map are not in order");
            }
            field(map.emplace_hint(map.end(), std::move(key), std::string())->second);
        }
    }

    bool atEnd() const { return rest.empty(); }

private:
    /// Every element takes at least the bytes of its length, so a hostile count cannot make us allocate more than we were sent.
    std::uint32_t readCount() {
        std::uint32_t count = 0;
        field(count);
        if (count > maxLaunchRequestListLength || count > rest.size() / sizeof count) {
            throw Error("Invalid launch request: a list is too long");
        }
        return count;
    }

    std::string_view rest;
};

/// The fields in their order; `Archive` is Writer or Reader.
template <typename Archive, typename Request>
void transfer(Archive& archive, Request& request) {
    archive.field(request.imageFd);
    archive.field(request.imagePath);
    archive.field(request.imageReference);
    archive.field(request.metadata.cmd);
    archive.field(request.metadata.entrypoint);
    archive.field(request.metadata.workingDir);
    archive.field(request.metadata.env);
    archive.field(request.metadata.labels);
    archive.field(request.command);
    archive.field(request.entrypoint);
    archive.field(request.hostEnvironment);
    archive.field(request.env);
    archive.field(request.unsetEnv);
    archive.field(request.mounts);
    archive.field(request.devices);
    archive.field(request.annotations);
    archive.field(request.workloadDirectories);
    archive.field(request.optionOrigins);
    archive.field(request.workdir);
    archive.field(request.name);
    archive.field(request.mpiType);
    archive.field(request.mpi);
    archive.field(request.glibc);
    archive.field(request.ssh);
    archive.field(request.init);
    archive.field(request.tty);
    archive.field(request.privatePid);
    archive.field(request.dryRun);
    archive.field(request.json);
    archive.field(request.readonlyRoot);
    archive.field(request.stackLimit);
    archive.field(request.logLevel);
}

}  // namespace

std::string optionKey(std::string_view option, std::string_view value) {
    return cat(option, '=', value);
}

std::string serializeLaunchRequest(const LaunchRequest& request) {
    Writer writer;
    writer.out = magic;
    writer.field(protocolVersion);
    transfer(writer, request);
    if (writer.out.size() > maxLaunchRequestSize) {
        throw Error(cat("The command line and the environment are too large: ", formatSize(writer.out.size()), " of at most ",
                        formatSize(maxLaunchRequestSize)));
    }
    return std::move(writer.out);
}

LaunchRequest parseLaunchRequest(std::string_view bytes) {
    if (bytes.size() > maxLaunchRequestSize) {
        throw Error("Invalid launch request: it is too large");
    }
    Reader reader(bytes);
    if (!bytes.starts_with(magic)) {
        throw Error("Invalid launch request: it does not come from sarus");
    }
    reader.take(magic.size());
    std::uint32_t version = 0;
    reader.field(version);
    if (version != protocolVersion) {
        throw Error(cat("Invalid launch request: version ", version, ", expected ", protocolVersion),
                    "sarus and sarus-starter must belong to the same installation");
    }
    LaunchRequest request;
    transfer(reader, request);
    if (!reader.atEnd()) {
        throw Error("Invalid launch request: it has superfluous bytes");
    }
    return request;
}

}  // namespace sarus::engine
