# At installation: completions and man pages, from the program's own tables. Needs the variables of
# cmake/ForetimeInstall.cmake.
set(prefix "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
foreach(shell_file IN ITEMS "bash bash-completion/completions/foretime" "zsh zsh/site-functions/_foretime"
  "fish fish/vendor_completions.d/foretime.fish")
  string(REPLACE " " ";" words "${shell_file}")
  list(GET words 0 shell)
  list(GET words 1 file)
  execute_process(COMMAND ${program} completion ${shell} OUTPUT_VARIABLE script RESULT_VARIABLE code)
  if(code)
    message(FATAL_ERROR "${program} completion ${shell}: ${code}")
  endif()
  if(shell STREQUAL zsh)  # the first time that it is asked, a file of fpath defines its function and completes as well
    string(REGEX REPLACE "^autoload[^\n]*\n" "#compdef foretime\nautoload -U +X bashcompinit && bashcompinit\n" script
      "${script}")
    string(APPEND script "_bash_complete -o default -F _foretime\n")
  endif()
  message(STATUS "Installing: ${prefix}/${data_in_prefix}/${file}")
  file(WRITE "${prefix}/${data_in_prefix}/${file}" "${script}")
endforeach()
if(python)
  message(STATUS "Installing: ${prefix}/${man}/man1/foretime*.1")
  execute_process(COMMAND ${python} -B ${pages} ${program} "${prefix}/${man}/man1" COMMAND_ERROR_IS_FATAL ANY)
else()
  message(STATUS "No man pages: /usr/bin/python3 makes them")
endif()
