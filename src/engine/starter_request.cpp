#include "engine/starter_request.hpp"

#include <concepts>
#include <limits>
#include <map>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

// The format: magic and version, the number of the verb (its position in StarterRequest), then the fields in
// the order of `fields`. Numbers are little-endian; a string is a 32-bit length and its bytes; a list is a
// 32-bit count and its elements; an optional is a byte 0 or 1 and the value.

namespace sarus::engine {

namespace {

constexpr std::string_view magic = "SARUSREQ";
constexpr std::uint32_t protocolVersion = 12;

template <typename Object, typename Type>
concept Is = std::same_as<std::remove_const_t<Object>, Type>;

auto fields(Is<oci::MountRequest> auto& mount) {
    return std::tie(mount.source, mount.destination, mount.readonly, mount.isSquashfs, mount.tmpfsSize,
                    mount.tmpfsMode, mount.isUnmount, mount.mustBeDirectory, mount.text);
}

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
        if (text.size() > maxRequestStringLength) {
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

    void field(const oci::MountRequest& mount) {
        std::apply([&](const auto&... one) { (field(one), ...); }, fields(mount));
    }

    template <typename Element>
    void field(const std::vector<Element>& list) {
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
        if (count > maxRequestListLength) {
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
            throw Error("Invalid request: it is truncated");
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
            throw Error("Invalid request: a flag is neither 0 nor 1");
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
            throw Error("Invalid request: unknown log level");
        }
        level = static_cast<LogLevel>(number);
    }

    void field(std::string& text) {
        std::uint32_t length = 0;
        field(length);
        if (length > maxRequestStringLength) {
            throw Error("Invalid request: a string is too long");
        }
        text = take(length);
        if (text.find('\0') != std::string::npos) {
            throw Error("Invalid request: a string holds a NUL character");
        }
    }

    template <typename Value>
    void field(std::optional<Value>& value) {
        bool present = false;
        field(present);
        Value read{};
        if (present) {
            field(read);
            value = std::move(read);
        } else {
            value.reset();
        }
    }

    void field(oci::MountRequest& mount) {
        std::apply([&](auto&... one) { (field(one), ...); }, fields(mount));
    }

    template <typename Element>
    void field(std::vector<Element>& list) {
        const auto count = readCount();
        list.clear();
        for (std::uint32_t i = 0; i < count; ++i) {
            field(list.emplace_back());
        }
    }

    /// Keys must ascend, as written: each request has one form.
    void field(std::map<std::string, std::string>& map) {
        const auto count = readCount();
        map.clear();
        for (std::uint32_t i = 0; i < count; ++i) {
            std::string key;
            field(key);
            if (!map.empty() && key <= map.rbegin()->first) {
                throw Error("Invalid request: the keys of a map are not in order");
            }
            field(map.emplace_hint(map.end(), std::move(key), std::string())->second);
        }
    }

    bool atEnd() const { return rest.empty(); }

private:
    /// Every element takes at least the bytes of its length, so a hostile count cannot make us allocate more
    /// than was sent.
    std::uint32_t readCount() {
        std::uint32_t count = 0;
        field(count);
        if (count > maxRequestListLength || count > rest.size() / sizeof count) {
            throw Error("Invalid request: a list is too long");
        }
        return count;
    }

    std::string_view rest;
};

// The transmitted fields of each request, in this order.

auto fields(Is<LaunchRequest> auto& request) {
    return std::tie(request.imageFd, request.imagePath, request.imageReference, request.imageDigest,
                    request.metadata.cmd, request.metadata.entrypoint, request.metadata.workingDir,
                    request.metadata.env, request.metadata.labels, request.metadata.volumes, request.command,
                    request.entrypoint, request.hostEnvironment, request.env, request.unsetEnv,
                    request.mounts, request.devices, request.annotations, request.workloadDirectories,
                    request.optionOrigins, request.workdir, request.name, request.imageContent, request.keep,
                    request.keptDirectory, request.hold, request.mpiType, request.mpi, request.glibc,
                    request.ssh, request.init, request.tty, request.privatePid, request.privateNetwork,
                    request.privateIpc, request.privateUts, request.dryRun, request.json,
                    request.readonlyRoot, request.remapRoot, request.stackLimit, request.logLevel);
}

auto fields(Is<ExecRequest> auto& request) {
    return std::tie(request.name, request.command, request.hostEnvironment, request.env, request.workdir,
                    request.tty, request.ownStep, request.keeper, request.imageReference,
                    request.imageContent, request.settings, request.stackLimit, request.logLevel);
}

auto fields(Is<ListRequest> auto& request) {
    return std::tie(request.sessionDirectory, request.json, request.all, request.kept, request.brief,
                    request.width, request.others);
}

auto fields(Is<InspectRequest> auto& request) {
    return std::tie(request.sessionDirectory, request.name, request.json);
}

auto fields(Is<KillRequest> auto& request) {
    return std::tie(request.sessionDirectory, request.name, request.signal);
}

auto fields(Is<CreateRepositoryRequest> auto&) {
    return std::tie();
}

auto fields(Is<RemoveRequest> auto& request) {
    return std::tie(request.sessionDirectory, request.job, request.names, request.force, request.allIdle,
                    request.onlyJob, request.ofEndedJobs, request.removed, request.hasFailed);
}

auto fields(Is<SaveRequest> auto& request) {
    return std::tie(request.job, request.name, request.content, request.imageFd);
}

/// `Archive` is Writer or Reader.
template <typename Archive, typename Request>
void transfer(Archive& archive, Request& request) {
    std::visit(
        [&](auto& verb) { std::apply([&](auto&... field) { (archive.field(field), ...); }, fields(verb)); },
        request);
}

/// An empty request of the verb with this number.
template <std::size_t Verb = 0>
StarterRequest makeRequest(std::uint32_t number) {
    if constexpr (Verb == std::variant_size_v<StarterRequest>) {
        throw Error("Invalid request: unknown verb");
    } else {
        return number == Verb ? StarterRequest(std::in_place_index<Verb>) : makeRequest<Verb + 1>(number);
    }
}

}  // namespace

std::string serializeRequest(const StarterRequest& request) {
    Writer writer;
    writer.out = magic;
    writer.field(protocolVersion);
    writer.field(static_cast<std::uint32_t>(request.index()));
    transfer(writer, request);
    if (writer.out.size() > maxRequestSize) {
        throw Error(cat("The command line and the environment are too large: ", formatSize(writer.out.size()),
                        " of at most ", formatSize(maxRequestSize)));
    }
    return std::move(writer.out);
}

StarterRequest parseRequest(std::string_view bytes) {
    if (bytes.size() > maxRequestSize) {
        throw Error("Invalid request: it is too large");
    }
    Reader reader(bytes);
    if (!bytes.starts_with(magic)) {
        throw Error("Invalid request: it does not come from sarus");
    }
    reader.take(magic.size());
    std::uint32_t version = 0;
    reader.field(version);
    if (version != protocolVersion) {
        throw Error(cat("Invalid request: version ", version, ", expected ", protocolVersion),
                    "sarus and sarus-starter must belong to the same installation");
    }
    std::uint32_t verb = 0;
    reader.field(verb);
    auto request = makeRequest(verb);
    transfer(reader, request);
    if (!reader.atEnd()) {
        throw Error("Invalid request: it has superfluous bytes");
    }
    return request;
}

}  // namespace sarus::engine
