# Before CPack makes the packages: what Debian wants in each, and man pages compressed.
foreach(component_package IN ITEMS "foretime foretime" "library libforetime1" "development libforetime-dev"
  "python3 python3-foretime")
  string(REPLACE " " ";" words "${component_package}")
  list(GET words 0 component)
  list(GET words 1 package)
  set(usr ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr)
  set(doc ${usr}/share/doc/${package})
  file(WRITE ${doc}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Foretime

Files: *
Copyright: 2026 the Foretime developers
License: Apache-2.0
 On Debian systems, the full text of the Apache License, Version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
")
  string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
  file(WRITE ${doc}/changelog "foretime (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * What changed: CHANGELOG.md of the sources, in the package foretime.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
  if(package STREQUAL libforetime1)
    file(WRITE ${usr}/share/lintian/overrides/${package} "# CPack writes scripts that call ldconfig, beside the trigger.
${package}: maintscript-calls-ldconfig *
")
  endif()
  file(GLOB pages ${usr}/share/man/man1/*.1)
  execute_process(COMMAND gzip -9nf ${doc}/changelog ${pages} COMMAND_ERROR_IS_FATAL ANY)

endforeach()
