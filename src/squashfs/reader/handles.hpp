#pragma once

#include <sqfs/inode.h>
#include <sqfs/predef.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace sarus::squashfs {

/// Frees an object of libsquashfs.
struct Free {
    void operator()(void* object) const noexcept { sqfs_destroy(object); }
};
template <typename Object>
using Handle = std::unique_ptr<Object, Free>;

/// Takes ownership of the result of a libsquashfs function; null means out of memory.
template <typename Object>
Handle<Object> own(Object* object) {
    if (object == nullptr) {
        throw Error("Failed to set up libsquashfs: out of memory");
    }
    return Handle<Object>(object);
}

struct FreeInode {
    void operator()(sqfs_inode_generic_t* inode) const noexcept { sqfs_free(inode); }
};
using OwnInode = std::unique_ptr<sqfs_inode_generic_t, FreeInode>;

/// A list of extended attributes: names and values.
using XattrSet = std::vector<std::pair<std::string, std::string>>;

}  // namespace sarus::squashfs
