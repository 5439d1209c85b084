#pragma once

namespace sarus::cli {

class Context;

/// Asks the SSH hook, as the calling user, whether the keys for `run --ssh` exist. Throws Error with the
/// documented message if they do not.
void checkSshKeys(Context& context);

}  // namespace sarus::cli
