# What `cmake --install` puts where: library, header, command, man page, syncfab.pc and the CMake package. The
# installed tree may be moved as a whole: nothing in it names the prefix.
install(TARGETS sfab RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/syncfab DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB SFAB_MAN1 docs/*.1)
install(FILES ${SFAB_MAN1} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# An export set for each library: only the static one makes its user look for what it is made of.
set(SFAB_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/syncfab)
foreach(kind shared static)
    install(TARGETS syncfab_${kind} EXPORT syncfab-${kind}
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT syncfab-${kind} NAMESPACE syncfab:: FILE syncfab-${kind}-targets.cmake
            DESTINATION ${SFAB_CMAKE_DIR})
endforeach()

set(SFAB_PC_PRIVATE "libcrypto >= 3")
if(VERBS_FOUND)
    string(APPEND SFAB_PC_PRIVATE ", libibverbs, librdmacm")
    set(SFAB_CONFIG_VERBS ON)
else()
    set(SFAB_CONFIG_VERBS OFF)
endif()

configure_package_config_file(cmake/syncfab-config.cmake.in syncfab-config.cmake
                              INSTALL_DESTINATION ${SFAB_CMAKE_DIR})
write_basic_package_version_file(syncfab-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/syncfab-config.cmake
              ${PROJECT_BINARY_DIR}/syncfab-config-version.cmake
        DESTINATION ${SFAB_CMAKE_DIR})

# syncfab.pc finds its prefix from where it lies, unless the folders were given as absolute paths.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
    set(SFAB_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
    set(SFAB_PC_LIBDIR ${CMAKE_INSTALL_LIBDIR})
else()
    file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
    string(REGEX REPLACE "/$" "" up "${up}")
    set(SFAB_PC_PREFIX "\${pcfiledir}/${up}")
    set(SFAB_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
    set(SFAB_PC_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
else()
    set(SFAB_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/syncfab.pc.in syncfab.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/syncfab.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
