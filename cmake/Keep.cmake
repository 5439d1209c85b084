# What `cmake --install` keeps of an installation that it replaces. This file comes before all install rules.

# Who owns a set-user-ID starter and who may execute it. Without this, containers would start without privileges from now on.
install(CODE [[
    set(starter "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/libexec/sarus-starter")
    execute_process(COMMAND stat -c "%u:%g %a" "${starter}" OUTPUT_VARIABLE starterBefore ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
]] COMPONENT sarus)

# sarus_restore_starter(): after the rule that installs the starter.
function(sarus_restore_starter)
    install(CODE [[
        if(starterBefore MATCHES "^(0:[0-9]+) (4[0-7][0-7][0-7])$")
            execute_process(COMMAND chown "${CMAKE_MATCH_1}" "${starter}" RESULT_VARIABLE failed ERROR_QUIET)
            if(NOT failed)
                execute_process(COMMAND chmod "${CMAKE_MATCH_2}" "${starter}" RESULT_VARIABLE failed ERROR_QUIET)
            endif()
            if(failed)
                message(WARNING "${starter} was set-user-ID root and is not any more: containers start without privileges. "
                                "Run configure_installation.sh as root")
            else()
                message(STATUS "Kept owner and mode of ${starter}: ${starterBefore}")
            endif()
        endif()
    ]] COMPONENT sarus)
endfunction()

# sarus_install_settings(DIRECTORY DESTINATION COMPONENT FILES...): FILES below DIRECTORY of the source tree are settings of the site. One that the
# site has changed stays, and the file of this version becomes FILE.new. DESTINATION is expanded at installation.
function(sarus_install_settings directory destination component)
    install(CODE "
        set(source \"${CMAKE_SOURCE_DIR}/${directory}\")
        set(destination \"\${CMAKE_INSTALL_PREFIX}/${destination}\")
        set(settings \"${ARGN}\")
    " COMPONENT ${component})
    install(CODE [[
        foreach(name IN LISTS settings)
            get_filename_component(folder "${name}" DIRECTORY)
            set(existing "$ENV{DESTDIR}${destination}/${name}")
            file(REMOVE "${existing}.new")
            set(rename "")
            set(before "")
            file(SHA256 "${source}/${name}" after)
            if(EXISTS "${existing}" AND NOT IS_DIRECTORY "${existing}")
                file(SHA256 "${existing}" before)
            endif()
            if(EXISTS "${existing}" AND NOT before STREQUAL after)
                get_filename_component(rename "${name}" NAME)
                set(rename RENAME "${rename}.new")
                message(STATUS "Kept ${existing}. Compare it with this version's ${existing}.new")
            endif()
            file(INSTALL DESTINATION "${destination}/${folder}" TYPE FILE FILES "${source}/${name}" ${rename})
        endforeach()
    ]] COMPONENT ${component})
endfunction()
