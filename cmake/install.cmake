# What is shipped: the shared library with its C header, the tool, and the files by which others find them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# ---- the library: everything inside, nothing but tw_* visible. Its target has another name than its file, because the tool's
# file is called `tilewright` and stands beside it.
add_library(tilewright_library SHARED src/api/c_api.cpp)
target_link_libraries(tilewright_library PRIVATE tw_report)
target_include_directories(tilewright_library PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
set_target_properties(tilewright_library PROPERTIES OUTPUT_NAME tilewright EXPORT_NAME tilewright
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/exports.map)
target_link_options(tilewright_library PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map -Wl,--gc-sections)
if(NOT TILEWRIGHT_SANITIZE)
  target_link_options(tilewright_library PRIVATE -Wl,--no-undefined)
endif()
add_library(tilewright::tilewright ALIAS tilewright_library)

# ---- the tool. libpng is linked statically, so that the tool needs libc and libstdc++ only.
file(GLOB _cli CONFIGURE_DEPENDS src/cli/*.cpp)
find_library(TILEWRIGHT_PNG NAMES libpng.a png REQUIRED)
find_library(TILEWRIGHT_ZLIB NAMES libz.a z REQUIRED)
add_executable(tilewright_tool ${_cli})
set_target_properties(tilewright_tool PROPERTIES OUTPUT_NAME tilewright)
add_dependencies(tilewright_tool tilewright_library)
target_link_libraries(tilewright_tool PRIVATE tw_report ${TILEWRIGHT_PNG} ${TILEWRIGHT_ZLIB} m ${CMAKE_DL_LIBS})

# ---- install: headers, library, tool, find_package(tilewright), pkg-config
install(TARGETS tilewright_library EXPORT tilewright LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS tilewright_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/tilewright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tilewright NAMESPACE tilewright:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright
  FILE tilewrightTargets.cmake)
configure_package_config_file(cmake/tilewrightConfig.cmake.in ${CMAKE_BINARY_DIR}/tilewrightConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tilewrightConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tilewrightConfig.cmake ${CMAKE_BINARY_DIR}/tilewrightConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
# The folder of the .pc file says where the rest is, so that an installed tree can be moved. The number of steps up follows
# from the library folder, which on Debian may be lib/x86_64-linux-gnu.
string(REGEX REPLACE "[^/]+" ".." _up "${CMAKE_INSTALL_LIBDIR}")
set(TILEWRIGHT_PREFIX "\${pcfiledir}/../${_up}")
configure_file(cmake/tilewright.pc.in ${CMAKE_BINARY_DIR}/tilewright.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tilewright.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
