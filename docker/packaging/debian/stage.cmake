# Run by CPack on what is about to be packed: what Debian wants of a package (Policy 12.1, 12.5, 12.7).
set(share ${CPACK_TEMPORARY_DIRECTORY}/usr/share)
set(doc ${share}/doc/relay)
set(debian ${CPACK_RELAY_SOURCE}/docker/packaging/debian)

file(STRINGS ${CPACK_RELAY_SOURCE}/CHANGELOG.md heading REGEX "^## " LIMIT_COUNT 1)
string(FIND "${heading} " "## ${CPACK_PACKAGE_VERSION} " at)
if(NOT at EQUAL 0)
  message(FATAL_ERROR "CHANGELOG.md begins with \"${heading}\", but this is version ${CPACK_PACKAGE_VERSION}")
endif()
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${doc}/changelog.Debian
"relay (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) stable; urgency=medium

  * ${CPACK_PACKAGE_VERSION}: what has changed is in changelog.gz.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}
")
configure_file(${CPACK_RELAY_SOURCE}/CHANGELOG.md ${doc}/changelog COPYONLY)
configure_file(${debian}/copyright ${doc}/copyright COPYONLY)
configure_file(${debian}/lintian-overrides ${share}/lintian/overrides/relay COPYONLY)
execute_process(COMMAND gzip -9nf ${doc}/changelog ${doc}/changelog.Debian ${share}/man/man1/relay.1 COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND chmod -R u=rwX,go=rX ${share} COMMAND_ERROR_IS_FATAL ANY)
