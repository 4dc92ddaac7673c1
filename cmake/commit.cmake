# Writes OUT, a header with the commit of SOURCE, where that has changed: `cmake -DSOURCE=… -DOUT=… -P
# cmake/commit.cmake` at each build.
set(commit unknown)
find_program(git git)
if(git)
  execute_process(COMMAND ${git} -C ${SOURCE} show -s --format=%h\ %cs HEAD OUTPUT_VARIABLE found RESULT_VARIABLE
    failed ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed)
    set(commit "${found}")
    execute_process(COMMAND ${git} -C ${SOURCE} diff --quiet HEAD RESULT_VARIABLE changed ERROR_QUIET OUTPUT_QUIET)
    if(changed)
      string(APPEND commit ", with changes")
    endif()
  endif()
endif()
set(text "#define FORETIME_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUT} "${text}")
endif()
