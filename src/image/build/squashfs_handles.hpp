#pragma once

#include <sqfs/predef.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace sarus::image::build {

/// Frees an object of libsquashfs.
struct SquashfsFree {
    void operator()(void* object) const noexcept { sqfs_destroy(object); }
};
template <typename Object>
using SquashfsPtr = std::unique_ptr<Object, SquashfsFree>;

/// Takes over what a function of libsquashfs returned; those return null when memory is short.
template <typename Object>
SquashfsPtr<Object> own(Object* object) {
    if (object == nullptr) {
        throw Error("Failed to set up libsquashfs: out of memory");
    }
    return SquashfsPtr<Object>(object);
}

/// A list of extended attributes: names and values.
using XattrSet = std::vector<std::pair<std::string, std::string>>;

}  // namespace sarus::image::build
