#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "engine/site_config.hpp"

namespace sarus::starter {

/// A part of a record: ` key=value` pairs (logfmt). Texts are in double quotes, shortened, and contain only
/// printable ASCII, so whatever a user puts into one, it ends neither the value nor the line: `\"`, `\\`, and
/// `\xHH` for a byte.
class AuditFields {
public:
    AuditFields& number(std::string_view key, std::uint64_t value);
    AuditFields& text(std::string_view key, std::string_view value);
    /// Items separated by commas, and the parts of an item by colons: `\x2c` and `\x3a` inside of a part.
    AuditFields& list(std::string_view key, const std::vector<std::vector<std::string>>& items);

    const std::string& all() const noexcept { return fields; }

private:
    std::string fields;
};

/// The starter's records for syslog: one line each in a datagram to /dev/log, which the kernel or syslog
/// stamps with the sender's ids: root's. No record makes a start fail or wait for more than a fraction of a
/// second. Without privileges there are no records, because everybody could write the same.
class AuditLog {
public:
    AuditLog() = default;  ///< writes nothing
    AuditLog(engine::AuditFacility facility, uid_t caller);

    /// What all records from now on contain.
    AuditFields& about() noexcept { return subject; }
    bool isOn() const noexcept { return facility != engine::AuditFacility::off; }

    void started() noexcept;
    /// `status`: nullopt if the starter was killed.
    void ended(std::optional<int> status) noexcept;
    /// Writes nothing once somebody else is to write the end.
    void refused(const Error& error) noexcept;
    /// Another process writes the end.
    void handOver() noexcept { handedOver = true; }

private:
    void write(int severity, std::string_view event, const std::string& more) noexcept;

    engine::AuditFacility facility = engine::AuditFacility::off;
    AuditFields subject;
    int lost = 0;
    bool handedOver = false;
};

}  // namespace sarus::starter
