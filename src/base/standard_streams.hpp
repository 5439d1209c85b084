#pragma once

namespace sarus {

/// Opens /dev/null in the place of standard streams that are closed. Else the first file which the program opens would take a
/// stream's number, and messages would be written into it. Reading and writing go on to fail as they do on a closed stream.
/// Ends the process where even /dev/null cannot be opened.
void openMissingStandardStreams();

}  // namespace sarus
