# Hooks mount, create, replace and remove below a container's root through src/container_root alone. sarus_check_root_writes(SRC) fails
# the configuration if a file of SRC/hooks calls the system itself, unless the list below says what it writes to. As a script (SRC) it
# does the same, for the tests.
set(SARUS_WRITES_ELSEWHERE
    hooks/kit/container_cgroups.cpp           # cgroups: the container's
    hooks/kit/device_access.cpp               # cgroups: the container's rules for devices
    hooks/kit/hook_logger.cpp                 # the site's log files
    hooks/mps/control.cpp                     # /dev/null
    hooks/mps/directories.cpp                 # the site's MPS_USER_DIRECTORY
    hooks/mps/main.cpp                        # leaves the engine's mounts, in a mount namespace of its own
    hooks/slurm_global_sync/shared_files.cpp  # the site's shared directory
    hooks/ssh/daemon.cpp                      # /dev/null, cgroups
    hooks/ssh/pid_file.cpp                    # the user's pid file of the host
    hooks/ssh/user_keys.cpp                   # the user's keys
    hooks/timestamp/log_file.cpp              # the user's or the site's log file
    )

# With the variants of each call (mkdirat, umount2).
set(SARUS_WRITES "::(u?mount|move_mount|open_tree|pivot_root|mkdir|rmdir|mknod|mkfifo|symlink|link|unlink|remove|rename|creat|[lf]?chown|f?chmod|f?truncate|[lf]?setxattr|f?utimens|fopen|syscall)[a-z0-9]*\\(")
string(APPEND SARUS_WRITES "|O_(WRONLY|RDWR|CREAT|TRUNC|TMPFILE)|ofstream|std::filesystem")
string(APPEND SARUS_WRITES "|(^|[^.>])(createInRoot|mountFilesystem|bindMount|attachMount|setMountReadOnly|addNosuid|replaceFile|makeFifo|createDirectories|removeTree)\\(")

function(sarus_check_root_writes source)
    file(GLOB files RELATIVE "${source}" "${source}/hooks/*/*.[ch]pp" "${source}/hooks/*/*/*.[ch]pp")
    list(REMOVE_ITEM files ${SARUS_WRITES_ELSEWHERE})
    foreach(file IN LISTS files)
        file(STRINGS "${source}/${file}" writes REGEX "${SARUS_WRITES}" LIMIT_COUNT 1)
        if(writes)
            string(STRIP "${writes}" writes)
            message(FATAL_ERROR "${file} writes by itself: '${writes}'. Below a container's root, use src/container_root; for "
                                "another place, add the file to cmake/RootWrites.cmake")
        endif()
    endforeach()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
    sarus_check_root_writes("${SRC}")
endif()
