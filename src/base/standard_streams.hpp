#pragma once

namespace sarus {

/// Opens /dev/null in place of closed standard streams. Otherwise the first file that the program opens would
/// get a stream's number, and messages would go into it. Reading and writing still fail as on a closed
/// stream. Ends the process with a message if /dev/null cannot be opened.
void openMissingStandardStreams();

}  // namespace sarus
