# The Lua scripts become part of the program, so that an installed foretime needs no file beside it.
file(GLOB script_files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/scripts/*.lua)
set(script_source "#include \"jobs/scripts_data.h\"\n\nnamespace foretime::jobs {\n\nconst ScriptText kScriptTexts[] = {\n")
foreach(file IN LISTS script_files)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND script_source "    {\"${name}\", R\"lua(${text})lua\"},\n")
endforeach()
string(APPEND script_source
       "};\nconst size_t kScriptCount = sizeof(kScriptTexts) / sizeof(kScriptTexts[0]);\n\n}  // namespace foretime::jobs\n")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/scripts_data.cpp.new "${script_source}")
file(COPY_FILE ${CMAKE_CURRENT_BINARY_DIR}/scripts_data.cpp.new ${CMAKE_CURRENT_BINARY_DIR}/scripts_data.cpp
     ONLY_IF_DIFFERENT)
list(APPEND job_sources limits.cpp scripts.cpp ${CMAKE_CURRENT_BINARY_DIR}/scripts_data.cpp job_hash.cpp redis_queue.cpp)
