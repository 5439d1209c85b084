# The version that the programs print: the nearest tag, or the project's version where there is no tag or no git.
execute_process(COMMAND git describe --tags --dirty --always --match "[0-9]*"
                WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE SARUS_VERSION
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
execute_process(COMMAND git rev-parse HEAD WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE SARUS_COMMIT
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT SARUS_VERSION MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+")
    set(SARUS_VERSION "${PROJECT_VERSION}")
endif()
